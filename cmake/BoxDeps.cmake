find_package(PkgConfig REQUIRED)
find_package(Threads REQUIRED)
foreach(dep IN ITEMS
    PROTOBUF_C:libprotobuf-c NGHTTP2:libnghttp2 OPENSSL:openssl LIBUV:libuv YAML:yaml-0.1
    JANSSON:jansson SQLITE:sqlite3 SECCOMP:libseccomp CAP:libcap ZLIB:zlib
    PCRE2:libpcre2-8)
    string(REPLACE ":" ";" pair ${dep})
    list(GET pair 0 var)
    list(GET pair 1 module)
    pkg_check_modules(${var} REQUIRED IMPORTED_TARGET ${module})
endforeach()
if(BOX_TESTS)
    pkg_check_modules(CMOCKA REQUIRED IMPORTED_TARGET cmocka)
endif()
