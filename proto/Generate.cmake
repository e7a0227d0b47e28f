# Code from .proto files: messages by protoc-c, dispatch tables and client stubs by protoc-gen-boxc.
#
#   box_generate(TARGET name PROTOS box/v1/a.proto ... IMPORT_DIRS dir ... [DEPS targets ...]
#                [DESCRIPTOR_SYMBOL symbol] [CLIENT] [MESSAGES_ONLY] [INSTALL])
#
# PROTOS are named as an import names them, below one of IMPORT_DIRS. Made, all in the build folder:
#
#   name          static library: "box/v1/a.pb-c.h" (messages), "box/v1/a.fields.h" (has and set of
#                 optional fields), "box/v1/a.box.h" (handlers and tables). DEPS are targets of
#                 box_generate whose messages are imported; google/protobuf/* come by themselves.
#   MESSAGES_ONLY only a.pb-c.h: for what proto/wire itself needs.
#   DESCRIPTOR_SYMBOL  "symbol.h": the files and their imports as a box_descriptor_set.
#   CLIENT        object library name_client: "box/v1/a.client.h". Whoever implements box/call.h links
#                 it, PUBLIC, so that the stubs land in its archive.
#   INSTALL       the headers that callers need are installed (cmake/BoxInstall.cmake).
#
# protoc-c refuses proto3 `optional`: it is given a descriptor set in which protoc-gen-boxc has
# cleared it, and no -I, since with one it would read the files again (c-grpc-codegen.md, last
# section). Outputs are written aside and copied when they differ, so one changed .proto compiles
# only what it changed.
include_guard(GLOBAL)

find_program(BOX_PROTOC protoc REQUIRED)
find_program(BOX_PROTOC_GEN_C protoc-gen-c REQUIRED)
find_path(BOX_PROTOC_INCLUDE google/protobuf/descriptor.proto REQUIRED)

# The rules. FILES are the outputs, relative to OUT; PLUGIN are parameters of protoc-gen-boxc.
function(box_generate_rules NAME OUT)
    cmake_parse_arguments(ARG "" "DESCRIPTOR_SYMBOL" "PROTOS;IMPORT_DIRS;PLUGIN;FILES" ${ARGN})
    set(work ${CMAKE_CURRENT_BINARY_DIR}/${NAME}.work)
    file(MAKE_DIRECTORY ${work} ${OUT})
    list(TRANSFORM ARG_IMPORT_DIRS PREPEND -I OUTPUT_VARIABLE imports)
    # Every file that could be imported (protoc writes a dependency file only for one input).
    set(inputs)
    foreach(dir IN LISTS ARG_IMPORT_DIRS)
        file(GLOB_RECURSE found ${dir}/*.proto)
        list(APPEND inputs ${found})
    endforeach()
    add_custom_command(
        OUTPUT ${work}/full.pb
        COMMAND ${BOX_PROTOC} ${imports} -I${BOX_PROTOC_INCLUDE} --include_imports
            --include_source_info --descriptor_set_out=full.pb
            ${ARG_PROTOS}
        DEPENDS ${inputs}
        WORKING_DIRECTORY ${work}
        COMMENT "Reading the .proto files of ${NAME}"
        VERBATIM)

    set(boxc ${BOX_PROTOC} --descriptor_set_in=full.pb
        --plugin=protoc-gen-boxc=$<TARGET_FILE:protoc-gen-boxc>)
    set(commands)
    foreach(parameter IN LISTS ARG_PLUGIN)
        list(APPEND commands COMMAND ${boxc} --boxc_out=${parameter}:new ${ARG_PROTOS})
    endforeach()
    if(ARG_DESCRIPTOR_SYMBOL)
        set(symbol ${ARG_DESCRIPTOR_SYMBOL})
        list(APPEND commands
            COMMAND protoc-gen-boxc --embed full.pb new/${symbol}.c new/${symbol}.h ${symbol})
    endif()
    set(outputs)
    foreach(file IN LISTS ARG_FILES)
        get_filename_component(dir ${OUT}/${file} DIRECTORY)
        file(MAKE_DIRECTORY ${dir})
        list(APPEND outputs ${OUT}/${file})
        list(APPEND commands
            COMMAND ${CMAKE_COMMAND} -E copy_if_different new/${file} ${OUT}/${file})
    endforeach()
    add_custom_command(
        OUTPUT ${outputs}
        COMMAND ${CMAKE_COMMAND} -E rm -rf new
        COMMAND ${CMAKE_COMMAND} -E make_directory new
        COMMAND protoc-gen-boxc --clear-optional full.pb clean.pb
        COMMAND ${BOX_PROTOC} --descriptor_set_in=clean.pb
            --plugin=protoc-gen-c=${BOX_PROTOC_GEN_C} --c_out=new ${ARG_PROTOS}
        ${commands}
        DEPENDS ${work}/full.pb protoc-gen-boxc
        WORKING_DIRECTORY ${work}
        COMMENT "Generating ${NAME}"
        VERBATIM)
endfunction()

function(box_generate)
    cmake_parse_arguments(ARG "CLIENT;MESSAGES_ONLY;INSTALL" "TARGET;DESCRIPTOR_SYMBOL"
        "PROTOS;IMPORT_DIRS;DEPS" ${ARGN})
    set(out ${CMAKE_CURRENT_BINARY_DIR}/${ARG_TARGET})
    set(stems ${ARG_PROTOS})
    list(TRANSFORM stems REPLACE "\\.proto$" "")
    list(TRANSFORM stems APPEND .pb-c.h OUTPUT_VARIABLE headers)
    list(TRANSFORM stems APPEND .pb-c.c OUTPUT_VARIABLE sources)
    set(plugin)
    set(client_files)
    if(NOT ARG_MESSAGES_ONLY)
        set(plugin server)
        foreach(stem IN LISTS stems)
            list(APPEND headers ${stem}.fields.h ${stem}.box.h)
            list(APPEND sources ${stem}.box.c)
        endforeach()
    endif()
    if(ARG_DESCRIPTOR_SYMBOL)
        list(APPEND headers ${ARG_DESCRIPTOR_SYMBOL}.h)
        list(APPEND sources ${ARG_DESCRIPTOR_SYMBOL}.c)
    endif()
    if(ARG_CLIENT)
        list(APPEND plugin client)
        foreach(stem IN LISTS stems)
            list(APPEND client_files ${stem}.client.h ${stem}.client.c)
        endforeach()
    endif()
    box_generate_rules(${ARG_TARGET} ${out} PROTOS ${ARG_PROTOS} IMPORT_DIRS ${ARG_IMPORT_DIRS}
        PLUGIN ${plugin} DESCRIPTOR_SYMBOL ${ARG_DESCRIPTOR_SYMBOL}
        FILES ${headers} ${sources} ${client_files})

    list(TRANSFORM headers PREPEND ${out}/ OUTPUT_VARIABLE header_paths)
    list(TRANSFORM sources PREPEND ${out}/ OUTPUT_VARIABLE source_paths)
    add_library(${ARG_TARGET} STATIC ${source_paths} ${header_paths})
    target_include_directories(${ARG_TARGET} SYSTEM PUBLIC $<BUILD_INTERFACE:${out}>)
    target_link_libraries(${ARG_TARGET} PRIVATE box_generated
        PUBLIC ${ARG_DEPS} PkgConfig::PROTOBUF_C)
    if(NOT ARG_TARGET STREQUAL "box_well_known")
        target_link_libraries(${ARG_TARGET} PUBLIC box_well_known)
    endif()
    if(NOT ARG_MESSAGES_ONLY)
        target_link_libraries(${ARG_TARGET} PUBLIC box_wire)
    endif()
    if(ARG_CLIENT)
        list(TRANSFORM client_files PREPEND ${out}/ OUTPUT_VARIABLE client_paths)
        add_library(${ARG_TARGET}_client OBJECT ${client_paths})
        target_include_directories(${ARG_TARGET}_client PUBLIC
            $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/client/include>)
        target_link_libraries(${ARG_TARGET}_client PRIVATE box_generated PUBLIC ${ARG_TARGET})
    endif()
    if(ARG_INSTALL)
        foreach(file IN LISTS headers client_files)
            if(file MATCHES "\\.(pb-c|fields|client)\\.h$")
                set_property(GLOBAL APPEND PROPERTY BOX_PUBLIC_HEADERS ${out}/${file})
                set_property(GLOBAL APPEND PROPERTY BOX_PUBLIC_HEADER_NAMES ${file})
            endif()
        endforeach()
        set_property(GLOBAL APPEND PROPERTY BOX_PUBLIC_TARGETS ${ARG_TARGET})
    endif()
endfunction()

# The messages that protobuf-c does not ship; compiled once, and only what is used gets linked.
box_generate(TARGET box_well_known MESSAGES_ONLY INSTALL
    PROTOS google/protobuf/any.proto google/protobuf/duration.proto google/protobuf/empty.proto
        google/protobuf/field_mask.proto google/protobuf/timestamp.proto)
