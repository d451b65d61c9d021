# Flags for everything of ours: baseline x86-64-v2 (wider paths are chosen at run time), warnings
# as errors, hardening, and the sanitizers that were asked for.
find_package(PkgConfig REQUIRED)
find_package(Threads REQUIRED)

add_library(weft_flags INTERFACE)
target_compile_options(weft_flags INTERFACE
  -Wall -Wextra -Wshadow -Werror $<$<COMPILE_LANGUAGE:C>:-Wmissing-prototypes>
  -fno-math-errno -ffp-contract=off -fstack-protector-strong)
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  target_compile_options(weft_flags INTERFACE -march=x86-64-v2)
endif()
if(WEFT_SANITIZE)
  target_compile_options(weft_flags INTERFACE -fsanitize=${WEFT_SANITIZE}
    -fno-omit-frame-pointer -fno-sanitize-recover=all
    $<$<CONFIG:RelWithDebInfo>:-g1>) # reports name lines; all of it takes a sixth longer to compile
  target_link_options(weft_flags INTERFACE -fsanitize=${WEFT_SANITIZE})
else()
  target_compile_definitions(weft_flags INTERFACE $<$<CONFIG:Release>:_FORTIFY_SOURCE=2>)
endif()
target_link_options(weft_flags INTERFACE -Wl,-z,relro,-z,now)

# Libraries beside the program are found before the system's (make bundle); as an old-style path it
# holds for what they need themselves too.
# Of what is installed, CMake would end the path in the build tree with ':', which means the working
# folder: such targets have the path of CMAKE_INSTALL_RPATH there too (BUILD_WITH_INSTALL_RPATH).
set(CMAKE_BUILD_RPATH "\$ORIGIN/../lib")
set(CMAKE_INSTALL_RPATH "\$ORIGIN/../lib")
target_link_options(weft_flags INTERFACE -Wl,--disable-new-dtags)
