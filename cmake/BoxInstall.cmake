# What `cmake --install` brings is listed by each folder; here is only what belongs to none of them.
install(FILES LICENSE README.md DESTINATION ${CMAKE_INSTALL_DOCDIR})
