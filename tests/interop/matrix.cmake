# The matrix: gRPC's standard cases between our ends and the stock ends of other languages, over TLS. The
# cases and what is expected are in matrix/cases.json, the table of who runs what in README.md.
set(matrix ${CMAKE_CURRENT_SOURCE_DIR}/matrix)
set(matrix_out ${CMAKE_CURRENT_BINARY_DIR}/matrix)
set(testing_proto ${CMAKE_CURRENT_SOURCE_DIR}/testing.proto)
file(MAKE_DIRECTORY ${matrix_out})

set(boxd_protos box/v1/types.proto box/v1/control.proto box/v1/exec.proto)
list(TRANSFORM boxd_protos PREPEND ${PROJECT_SOURCE_DIR}/proto/ OUTPUT_VARIABLE boxd_proto_files)

# interop.matrix.NAME.client: the stock CLIENT command against our server; .server: ours against SERVER;
# .boxd: the BOXD command against the whole of Box. WITHOUT, SERVER_WITHOUT: cases they cannot run.
# MISSING: what is not installed, when something is not: the tests say so and are skipped.
function(box_matrix name)
    cmake_parse_arguments(PARSE_ARGV 1 m "" "MISSING" "CLIENT;SERVER;BOXD;WITHOUT;SERVER_WITHOUT;FIXTURES")
    set(run ${BOX_PYTHON} -B ${matrix}/run.py ${python_out})
    set(client_command ${run} --server $<TARGET_FILE:box-echo-server> --client ${m_CLIENT}
        --without ${m_WITHOUT})
    set(server_command ${run} --server ${m_SERVER} --client $<TARGET_FILE:box-test-client>
        --without ${m_SERVER_WITHOUT})
    set(boxd_command ${BOX_PYTHON} -B ${CMAKE_CURRENT_SOURCE_DIR}/with_boxd.py
        ${CMAKE_RUNTIME_OUTPUT_DIRECTORY} ${python_out}
        ${BOX_PYTHON} ${matrix}/run_boxd.py ${m_BOXD})
    foreach(end IN ITEMS client server boxd)
        string(TOUPPER ${end} command)
        if(NOT m_${command})
            continue()
        endif()
        if(m_MISSING)
            set(${end}_command sh -c "echo skipped: ${m_MISSING} is not installed && exit 77")
        endif()
        add_test(NAME interop.matrix.${name}.${end} COMMAND ${${end}_command})
        set_tests_properties(interop.matrix.${name}.${end} PROPERTIES LABELS "interop;grpc"
            TIMEOUT 300 SKIP_RETURN_CODE 77 FIXTURES_REQUIRED "${m_FIXTURES}")
    endforeach()
endfunction()

# Sets OUT to the first of the names whose variable is not true, or to nothing.
function(box_missing out)
    set(${out} "" PARENT_SCOPE)
    foreach(pair IN LISTS ARGN)
        string(REPLACE "=" ";" pair ${pair})
        list(GET pair 1 variable)
        if(NOT ${variable})
            list(GET pair 0 package)
            set(${out} ${package} PARENT_SCOPE)
            return()
        endif()
    endforeach()
endfunction()

box_matrix(grpcio
    CLIENT ${BOX_PYTHON} ${matrix}/client.py ${python_out}
    SERVER ${BOX_PYTHON} ${matrix}/server.py ${python_out}
    SERVER_WITHOUT client_compressed_unary)

# Node: what the lock file has, by interop.node.install.
box_missing(missing node=BOX_NODE npm=BOX_NPM)
set(node_peer ${testing_proto} ${CMAKE_CURRENT_BINARY_DIR}/node)
box_matrix(grpc-js MISSING "${missing}" FIXTURES interop_node_modules
    CLIENT ${BOX_NODE} ${matrix}/client.js ${node_peer}
    SERVER ${BOX_NODE} ${matrix}/server.js ${node_peer}
    SERVER_WITHOUT client_compressed_unary server_compressed_unary)
add_custom_command(OUTPUT ${matrix_out}/testing.pb
    COMMAND ${BOX_PROTOC} -I ${CMAKE_CURRENT_SOURCE_DIR} --descriptor_set_out=${matrix_out}/testing.pb
        testing.proto
    DEPENDS ${testing_proto} VERBATIM)
add_custom_target(box_matrix_descriptors ALL DEPENDS ${matrix_out}/testing.pb)
box_matrix(connect-node MISSING "${missing}" FIXTURES interop_node_modules
    CLIENT ${BOX_NODE} ${matrix}/client_connect.js ${matrix_out}/testing.pb
        ${CMAKE_CURRENT_BINARY_DIR}/node)

# buf curl; of that package only its program for this machine is used.
set(buf ${CMAKE_CURRENT_BINARY_DIR}/node/node_modules/@bufbuild/buf-linux-x64/bin/buf)
if(CMAKE_HOST_SYSTEM_PROCESSOR STREQUAL "aarch64")
    string(REPLACE x64 aarch64 buf ${buf})
endif()
box_matrix(buf-curl MISSING "${missing}" FIXTURES interop_node_modules
    CLIENT ${BOX_PYTHON} ${matrix}/client_buf.py ${buf} ${python_out}
    WITHOUT cancel_after_begin cancel_after_first_response client_compressed_unary
    BOXD ${BOX_PYTHON} ${matrix}/boxd_buf.py ${buf})

# Ruby
find_program(BOX_RUBY ruby)
find_program(BOX_GRPC_RUBY_PLUGIN grpc_ruby_plugin)
if(BOX_RUBY)
    execute_process(COMMAND ${BOX_RUBY} -e "require 'grpc'" RESULT_VARIABLE failed OUTPUT_QUIET ERROR_QUIET)
    if(failed EQUAL 0)
        set(ruby_grpc TRUE)
    endif()
endif()
box_missing(missing ruby-grpc=ruby_grpc protobuf-compiler-grpc=BOX_GRPC_RUBY_PLUGIN)
set(ruby_out ${matrix_out}/ruby)
file(MAKE_DIRECTORY ${ruby_out})
if(NOT missing)
    set(to_ruby --ruby_out=${ruby_out} --grpc_out=${ruby_out}
        --plugin=protoc-gen-grpc=${BOX_GRPC_RUBY_PLUGIN})
    add_custom_command(OUTPUT ${ruby_out}/testing_pb.rb
        COMMAND ${BOX_PROTOC} -I ${CMAKE_CURRENT_SOURCE_DIR} ${to_ruby} testing.proto
        COMMAND ${BOX_PROTOC} -I ${PROJECT_SOURCE_DIR}/proto ${to_ruby} ${boxd_protos}
        DEPENDS ${testing_proto} ${boxd_proto_files}
        COMMENT "Ruby stubs of the matrix"
        VERBATIM)
    add_custom_target(box_matrix_ruby ALL DEPENDS ${ruby_out}/testing_pb.rb)
endif()
box_matrix(ruby MISSING "${missing}"
    CLIENT ${BOX_RUBY} ${matrix}/client.rb ${ruby_out}
    BOXD ${BOX_RUBY} ${matrix}/boxd.rb ${ruby_out})

# Go: Debian's packages are a GOPATH; nothing is fetched.
find_program(BOX_GO go)
find_program(BOX_PROTOC_GEN_GO protoc-gen-go)
find_path(BOX_GOCODE src/google.golang.org/grpc/version.go PATHS /usr/share/gocode NO_DEFAULT_PATH)
box_missing(missing golang-go=BOX_GO protoc-gen-go-1-3=BOX_PROTOC_GEN_GO
    golang-google-grpc-dev=BOX_GOCODE)
set(go_client ${CMAKE_BINARY_DIR}/tests/box-go-client)
set(go_boxd ${CMAKE_BINARY_DIR}/tests/box-go-boxd)
if(NOT missing)
    set(go_out ${matrix_out}/go)
    file(MAKE_DIRECTORY ${go_out}/src/boxtest)
    set(go_build ${CMAKE_COMMAND} -E env GO111MODULE=off GOFLAGS= GOCACHE=${go_out}/cache
        GOPATH=${go_out}:${BOX_GOCODE} ${BOX_GO} build)
    set(to_go --plugin=protoc-gen-go=${BOX_PROTOC_GEN_GO})
    # This plugin is older than proto3's optional fields, so they are made plain ones first; and its library
    # has the well-known types elsewhere.
    set(known github.com/golang/protobuf/ptypes)
    set(mapped Mgoogle/protobuf/duration.proto=${known}/duration
        Mgoogle/protobuf/timestamp.proto=${known}/timestamp)
    list(JOIN mapped , mapped)
    add_custom_command(OUTPUT ${go_client} ${go_boxd}
        COMMAND ${BOX_PROTOC} -I ${CMAKE_CURRENT_SOURCE_DIR} ${to_go}
            --go_out=plugins=grpc,import_path=boxtest:${go_out}/src/boxtest testing.proto
        COMMAND ${go_build} -o ${go_client} ${matrix}/client.go
        COMMAND ${BOX_PROTOC} -I ${PROJECT_SOURCE_DIR}/proto --include_imports
            --descriptor_set_out=${go_out}/full.pb ${boxd_protos}
        COMMAND protoc-gen-boxc --clear-optional ${go_out}/full.pb ${go_out}/clean.pb
        COMMAND ${BOX_PROTOC} --descriptor_set_in=${go_out}/clean.pb ${to_go}
            --go_out=plugins=grpc,${mapped}:${go_out}/src ${boxd_protos}
        COMMAND ${go_build} -o ${go_boxd} ${matrix}/boxd.go
        DEPENDS ${testing_proto} ${boxd_proto_files} ${matrix}/client.go ${matrix}/boxd.go
            protoc-gen-boxc
        COMMENT "Go peers of the matrix"
        VERBATIM)
    add_custom_target(box_matrix_go ALL DEPENDS ${go_client})
endif()
box_matrix(grpc-go MISSING "${missing}" CLIENT ${go_client} BOXD ${go_boxd})

# C++: grpcxx.cmake has the peers; here is one more, with the stubs of boxd.
set(missing libgrpc++-dev)
if(TARGET box-grpcxx-client)
    set(missing)
    set(cxx_out ${matrix_out}/grpcxx)
    file(MAKE_DIRECTORY ${cxx_out})
    string(REPLACE .proto .pb.cc cxx_sources "${boxd_protos}")
    string(REPLACE .proto .grpc.pb.cc cxx_stubs "${boxd_protos}")
    list(APPEND cxx_sources ${cxx_stubs})
    list(TRANSFORM cxx_sources PREPEND ${cxx_out}/)
    add_custom_command(OUTPUT ${cxx_sources}
        COMMAND ${BOX_PROTOC} -I ${PROJECT_SOURCE_DIR}/proto --cpp_out=${cxx_out} --grpc_out=${cxx_out}
            --plugin=protoc-gen-grpc=${BOX_GRPC_CPP_PLUGIN} ${boxd_protos}
        DEPENDS ${boxd_proto_files}
        COMMENT "C++ stubs of the matrix"
        VERBATIM)
    add_executable(box-grpcxx-boxd ${matrix}/boxd.cc ${cxx_sources})
    target_compile_options(box-grpcxx-boxd PRIVATE -O0 -g0) # compiles in a third of the time
    target_include_directories(box-grpcxx-boxd SYSTEM PRIVATE ${cxx_out})
    target_link_libraries(box-grpcxx-boxd PRIVATE box_grpcxx_proto)
    set_target_properties(box-grpcxx-boxd PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
endif()
box_matrix(grpcxx MISSING "${missing}"
    CLIENT ${CMAKE_BINARY_DIR}/tests/box-grpcxx-client
    SERVER ${CMAKE_BINARY_DIR}/tests/box-grpcxx-server
    BOXD ${CMAKE_BINARY_DIR}/tests/box-grpcxx-boxd)
