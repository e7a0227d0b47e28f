# Compiler flags sit on one interface target: box_options for our code, box_generated for code
# that protoc writes (no warnings of ours there).
set(BOX_HARDENING
    -fstack-protector-strong -fstack-clash-protection -fcf-protection -fno-strict-overflow)
if(CMAKE_C_COMPILER_ID STREQUAL "GNU")
    list(APPEND BOX_HARDENING -ftrivial-auto-var-init=zero) # clang 14 hides it behind another flag
endif()
# assert() states what our own code guarantees and stays on in release: no NDEBUG.
set(CMAKE_C_FLAGS_RELWITHDEBINFO "-O2 -g")

add_library(box_base_options INTERFACE)
target_compile_definitions(box_base_options INTERFACE _GNU_SOURCE)
target_compile_options(box_base_options INTERFACE ${BOX_HARDENING} -fvisibility=hidden)
target_link_options(box_base_options INTERFACE -Wl,-z,relro,-z,now,-z,noexecstack)
set(CMAKE_EXE_LINKER_FLAGS "${CMAKE_EXE_LINKER_FLAGS} -pie")
if(BOX_SANITIZE)
    target_compile_options(box_base_options INTERFACE
        -fsanitize=${BOX_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
    target_link_options(box_base_options INTERFACE -fsanitize=${BOX_SANITIZE})
elseif(NOT CMAKE_BUILD_TYPE STREQUAL "Debug")
    target_compile_options(box_base_options INTERFACE -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2)
endif()
if(BOX_FUZZ)
    target_compile_options(box_base_options INTERFACE -fsanitize=fuzzer-no-link)
endif()

add_library(box_options INTERFACE)
target_link_libraries(box_options INTERFACE box_base_options)
target_compile_options(box_options INTERFACE
    -Wall -Wextra -Werror -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wold-style-definition
    -Wvla -Wformat=2 -Wundef -Wpointer-arith -Wwrite-strings -Wcast-qual -Wimplicit-fallthrough
    -include ${PROJECT_SOURCE_DIR}/proto/base/banned.h)
if(CMAKE_C_COMPILER_ID STREQUAL "Clang")
    target_compile_options(box_options INTERFACE -Wthread-safety)
endif()

add_library(box_generated INTERFACE)
target_link_libraries(box_generated INTERFACE box_base_options)
target_compile_options(box_generated INTERFACE -Wno-missing-braces)
