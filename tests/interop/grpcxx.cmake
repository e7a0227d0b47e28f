# The stock C++ peers, where Debian's grpc++ is installed. Built without our warnings: the headers are
# not ours, nor is what protoc writes. No test under sanitizers uses them.
if(BOX_SANITIZE)
    return()
endif()
pkg_check_modules(GRPCXX IMPORTED_TARGET grpc++ protobuf)
find_program(BOX_GRPC_CPP_PLUGIN grpc_cpp_plugin)
if(NOT GRPCXX_FOUND OR NOT BOX_GRPC_CPP_PLUGIN)
    message(STATUS "grpc++ is not installed: no C++ peers")
    return()
endif()
enable_language(CXX)
set(grpcxx_out ${CMAKE_CURRENT_BINARY_DIR}/grpcxx)
file(MAKE_DIRECTORY ${grpcxx_out})
set(grpcxx_sources testing.pb.cc testing.grpc.pb.cc script.pb.cc)
list(TRANSFORM grpcxx_sources PREPEND ${grpcxx_out}/)
add_custom_command(
    OUTPUT ${grpcxx_sources}
    COMMAND ${BOX_PROTOC} -I ${CMAKE_CURRENT_SOURCE_DIR} --cpp_out=${grpcxx_out}
        --grpc_out=${grpcxx_out} --plugin=protoc-gen-grpc=${BOX_GRPC_CPP_PLUGIN} testing.proto
    COMMAND ${BOX_PROTOC} -I ${CMAKE_CURRENT_SOURCE_DIR}/matrix --cpp_out=${grpcxx_out} script.proto
    DEPENDS testing.proto matrix/script.proto
    COMMENT "C++ stubs of the test service"
    VERBATIM)
add_library(box_grpcxx_proto STATIC ${grpcxx_sources})
target_compile_features(box_grpcxx_proto PUBLIC cxx_std_17)
target_include_directories(box_grpcxx_proto SYSTEM PUBLIC ${grpcxx_out})
target_link_libraries(box_grpcxx_proto PUBLIC PkgConfig::GRPCXX)

add_executable(box-grpcxx-server grpcxx_server.cc)
add_executable(box-grpcxx-client matrix/client.cc)
foreach(peer IN ITEMS box-grpcxx-server box-grpcxx-client)
    set_target_properties(${peer} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
    target_link_libraries(${peer} PRIVATE box_grpcxx_proto)
endforeach()
