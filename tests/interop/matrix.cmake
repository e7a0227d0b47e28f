# The matrix: gRPC's standard cases between our ends and the stock ends of other languages, over TLS. The
# cases and what is expected are in matrix/cases.json, the table of who runs what in README.md.
set(matrix ${CMAKE_CURRENT_SOURCE_DIR}/matrix)
set(matrix_out ${CMAKE_CURRENT_BINARY_DIR}/matrix)
set(testing_proto ${CMAKE_CURRENT_SOURCE_DIR}/testing.proto)
file(MAKE_DIRECTORY ${matrix_out})

# interop.matrix.NAME.client: the stock CLIENT command against our server; .server: ours against SERVER.
# MISSING: what is not installed, when something is: the test says so and is skipped.
function(box_matrix name)
    cmake_parse_arguments(PARSE_ARGV 1 m "" "MISSING" "CLIENT;SERVER;WITHOUT;FIXTURES")
    set(run ${BOX_PYTHON} -B ${matrix}/run.py ${python_out})
    set(client_command ${run} --server $<TARGET_FILE:box-echo-server> --client ${m_CLIENT}
        --without ${m_WITHOUT})
    set(server_command ${run} --server ${m_SERVER} --client $<TARGET_FILE:box-test-client>)
    foreach(end IN ITEMS client server)
        string(TOUPPER ${end} command)
        if(NOT m_${command})
            continue()
        endif()
        if(m_MISSING)
            set(${end}_command sh -c "echo skipped: ${m_MISSING} is not installed; exit 77")
        endif()
        add_test(NAME interop.matrix.${name}.${end} COMMAND ${${end}_command})
        set_tests_properties(interop.matrix.${name}.${end} PROPERTIES LABELS interop TIMEOUT 300
            SKIP_RETURN_CODE 77 FIXTURES_REQUIRED "${m_FIXTURES}")
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
    SERVER ${BOX_PYTHON} ${matrix}/server.py ${python_out})

# Node: what the lock file has, by interop.node.install.
box_missing(missing node=BOX_NODE npm=BOX_NPM)
set(node_peer ${testing_proto} ${CMAKE_CURRENT_BINARY_DIR}/node)
box_matrix(grpc-js MISSING "${missing}" FIXTURES interop_node_modules
    CLIENT ${BOX_NODE} ${matrix}/client.js ${node_peer}
    SERVER ${BOX_NODE} ${matrix}/server.js ${node_peer})
add_custom_command(OUTPUT ${matrix_out}/testing.pb
    COMMAND ${BOX_PROTOC} -I ${CMAKE_CURRENT_SOURCE_DIR} --descriptor_set_out=${matrix_out}/testing.pb
        testing.proto
    DEPENDS ${testing_proto} VERBATIM)
add_custom_target(box_matrix_descriptors ALL DEPENDS ${matrix_out}/testing.pb)
box_matrix(connect-node MISSING "${missing}" FIXTURES interop_node_modules
    CLIENT ${BOX_NODE} ${matrix}/client_connect.js ${matrix_out}/testing.pb
        ${CMAKE_CURRENT_BINARY_DIR}/node)

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
if(NOT missing)
    add_custom_command(OUTPUT ${matrix_out}/testing_pb.rb ${matrix_out}/testing_services_pb.rb
        COMMAND ${BOX_PROTOC} -I ${CMAKE_CURRENT_SOURCE_DIR} --ruby_out=${matrix_out}
            --grpc_out=${matrix_out} --plugin=protoc-gen-grpc=${BOX_GRPC_RUBY_PLUGIN} testing.proto
        DEPENDS ${testing_proto} VERBATIM)
    add_custom_target(box_matrix_ruby ALL DEPENDS ${matrix_out}/testing_pb.rb)
endif()
box_matrix(ruby MISSING "${missing}" CLIENT ${BOX_RUBY} ${matrix}/client.rb ${matrix_out})

# Go: Debian's packages are a GOPATH; nothing is fetched.
find_program(BOX_GO go)
find_program(BOX_PROTOC_GEN_GO protoc-gen-go)
find_path(BOX_GOCODE src/google.golang.org/grpc/version.go PATHS /usr/share/gocode NO_DEFAULT_PATH)
box_missing(missing golang-go=BOX_GO protoc-gen-go-1-3=BOX_PROTOC_GEN_GO
    golang-google-grpc-dev=BOX_GOCODE)
set(go_client ${CMAKE_BINARY_DIR}/tests/box-go-client)
if(NOT missing)
    file(MAKE_DIRECTORY ${matrix_out}/go/src/boxtest)
    add_custom_command(OUTPUT ${go_client}
        COMMAND ${BOX_PROTOC} -I ${CMAKE_CURRENT_SOURCE_DIR}
            --plugin=protoc-gen-go=${BOX_PROTOC_GEN_GO}
            --go_out=plugins=grpc,import_path=boxtest:${matrix_out}/go/src/boxtest testing.proto
        COMMAND ${CMAKE_COMMAND} -E env GO111MODULE=off GOFLAGS= GOCACHE=${matrix_out}/go/cache
            GOPATH=${matrix_out}/go:${BOX_GOCODE} ${BOX_GO} build -o ${go_client} ${matrix}/client.go
        DEPENDS ${testing_proto} ${matrix}/client.go
        COMMENT "Go client of the matrix"
        VERBATIM)
    add_custom_target(box_matrix_go ALL DEPENDS ${go_client})
endif()
box_matrix(grpc-go MISSING "${missing}" CLIENT ${go_client})
