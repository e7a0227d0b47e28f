# What `cmake --install` brings, beside the programs and protos that their own folders name:
#
#   lib/libbox.a               the client library with all it is made of
#   include/box/               its headers: every include of ours in them begins with "box/"
#   lib/pkgconfig/box.pc, lib/cmake/Box/      pkg-config --cflags --libs box; find_package(Box)
#   share/bash-completion/completions/boxcli
#   lib/systemd/system, lib/sysusers.d        units of boxd and box-warden, and boxd's user
#   lib/sysctl.d               the kernel settings that many commands at once need
#   share/doc/box/             README, LICENSE and sample configuration
include(CMakePackageConfigHelpers)

# --- the library -------------------------------------------------------------------------------
# One archive, so that order and names of our layers are nobody's concern.
pkg_check_modules(BOX_REQUIRES REQUIRED IMPORTED_TARGET libprotobuf-c libnghttp2 openssl zlib)
set(parts box_client box_host box_proto_client box_proto box_well_known box_wire box_wire_rpc box_base)
list(TRANSFORM parts REPLACE "(.+)" "$<TARGET_OBJECTS:\\1>" OUTPUT_VARIABLE objects)
add_library(box_library STATIC ${objects})
set_target_properties(box_library PROPERTIES OUTPUT_NAME box EXPORT_NAME client LINKER_LANGUAGE C)
target_include_directories(box_library INTERFACE $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
target_link_libraries(box_library INTERFACE PkgConfig::BOX_REQUIRES Threads::Threads)
install(TARGETS box_library EXPORT BoxTargets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})

# --- headers -----------------------------------------------------------------------------------
# In the tree a header is seen through the layer that owns it ("base/error.h"); installed, all are
# below include/box, and the few of proto/base and proto/wire that they need keep their folder.
get_property(headers GLOBAL PROPERTY BOX_PUBLIC_HEADERS)
get_property(names GLOBAL PROPERTY BOX_PUBLIC_HEADER_NAMES)
get_property(header_targets GLOBAL PROPERTY BOX_PUBLIC_TARGETS)
foreach(file IN ITEMS client/include/box/call.h client/include/box/channel.h
        client/include/box/error.h client/include/box/project.h client/include/box/stage.h client/include/box/upload.h
        proto/base/alloc.h proto/base/error.h proto/base/macros.h
        proto/base/reason.def proto/wire/encoding.h proto/wire/metadata.h)
    list(APPEND headers ${PROJECT_SOURCE_DIR}/${file})
    string(REGEX REPLACE "^(client/include|proto)/" "" name ${file})
    list(APPEND names ${name})
endforeach()
set(rewrite ${PROJECT_SOURCE_DIR}/cmake/install/header.cmake)
set(staged)
foreach(header name IN ZIP_LISTS headers names)
    string(REGEX REPLACE "^box/" "" name ${name})
    set(out ${PROJECT_BINARY_DIR}/include/box/${name})
    add_custom_command(OUTPUT ${out}
        COMMAND ${CMAKE_COMMAND} -DIN=${header} -DOUT=${out} -P ${rewrite}
        DEPENDS ${header} ${rewrite} VERBATIM)
    list(APPEND staged ${out})
    get_filename_component(folder ${name} DIRECTORY)
    install(FILES ${out} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/box/${folder})
endforeach()
add_custom_target(box_headers ALL DEPENDS ${staged})
add_dependencies(box_headers ${header_targets})

# --- pkg-config and CMake ------------------------------------------------------------------------
# The prefix is found from where the file lies: the tree may be moved.
string(REGEX REPLACE "[^/]+" ".." BOX_PC_PREFIX ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
configure_file(cmake/install/box.pc.in box.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/box.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

set(package ${CMAKE_INSTALL_LIBDIR}/cmake/Box)
configure_package_config_file(cmake/install/BoxConfig.cmake.in BoxConfig.cmake
    INSTALL_DESTINATION ${package})
write_basic_package_version_file(BoxConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/BoxConfig.cmake ${PROJECT_BINARY_DIR}/BoxConfigVersion.cmake
    DESTINATION ${package})
install(EXPORT BoxTargets NAMESPACE Box:: DESTINATION ${package})

# --- the rest ----------------------------------------------------------------------------------
set(completion ${PROJECT_BINARY_DIR}/completions/boxcli)
file(MAKE_DIRECTORY ${PROJECT_BINARY_DIR}/completions)
add_custom_command(OUTPUT ${completion}
    COMMAND boxcli completion bash > ${completion}
    DEPENDS boxcli)
add_custom_target(box_completion ALL DEPENDS ${completion})
install(FILES ${completion} DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions)

# The units name programs by their full path, which is known when installing.
set(units ${PROJECT_SOURCE_DIR}/cmake/install)
install(CODE "
    set(BOX_BINDIR \"\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_BINDIR}\")
    set(BOX_LIBEXECDIR \"\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_LIBEXECDIR}\")
    foreach(unit IN ITEMS boxd.service box-warden@.service)
        configure_file(\"${units}/\${unit}.in\" \"${PROJECT_BINARY_DIR}/units/\${unit}\" @ONLY)
    endforeach()")
install(FILES ${PROJECT_BINARY_DIR}/units/boxd.service
    ${PROJECT_BINARY_DIR}/units/box-warden@.service DESTINATION lib/systemd/system)
install(FILES cmake/install/sysusers.conf DESTINATION lib/sysusers.d RENAME box.conf)
install(FILES cmake/install/sysctl.conf DESTINATION lib/sysctl.d RENAME 60-box.conf)
install(FILES LICENSE README.md DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(FILES cmake/install/boxd.yaml cmake/install/warden-namespace.yaml
    DESTINATION ${CMAKE_INSTALL_DOCDIR}/examples)
