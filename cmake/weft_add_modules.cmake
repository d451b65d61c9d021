# weft_add_modules(PART ...): a static library weft_PART for each folder, in the order of layers.
# Each may use those before it, also of earlier calls; the property weft_modules has all, the last
# first.
function(weft_add_modules)
  get_property(before GLOBAL PROPERTY weft_modules)
  foreach(part ${ARGN})
    file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/${part}/*.c)
    list(FILTER sources EXCLUDE REGEX "/main\\.c$")
    if(NOT CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
      list(FILTER sources EXCLUDE REGEX "_v[34]\\.c$") # kernels for AVX2 and AVX-512
    endif()
    add_library(weft_${part} STATIC ${sources})
    target_include_directories(weft_${part} PUBLIC ${CMAKE_CURRENT_SOURCE_DIR})
    target_link_libraries(weft_${part} PRIVATE weft_flags PUBLIC weft_sdk ${before})
    set(before weft_${part} ${before})
  endforeach()
  set_property(GLOBAL PROPERTY weft_modules ${before})
endfunction()
