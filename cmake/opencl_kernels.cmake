# kernelopt_opencl_kernels(TARGET INPUT x.cl NAME kName HEADER folder/x.h): adds
# to TARGET the PTX of an OpenCL C file as the text constant kName.
#
# PTX 7.0 for sm_60: any driver since CUDA 11 compiles it for its own GPU. No
# fused multiply-adds are made, so that results equal the host's bit for bit.
find_program(KERNELOPT_CLANG NAMES clang clang-19 clang-14 REQUIRED)

function(kernelopt_opencl_kernels target)
  cmake_parse_arguments(ARG "" "INPUT;NAME;HEADER" "" ${ARGN})
  get_filename_component(input ${ARG_INPUT} ABSOLUTE)
  set(ptx ${CMAKE_CURRENT_BINARY_DIR}/${ARG_NAME}.ptx)
  set(source ${CMAKE_CURRENT_BINARY_DIR}/${ARG_NAME}.cc)
  add_custom_command(
    OUTPUT ${source}
    BYPRODUCTS ${ptx}
    COMMAND ${KERNELOPT_CLANG} -x cl -cl-std=CL2.0 --target=nvptx64 -O2 -Wall -Werror
            -ffp-contract=off -Xclang -target-cpu -Xclang sm_60 -Xclang -target-feature -Xclang
            +ptx70 -I${PROJECT_SOURCE_DIR}/src -S -o ${ptx} ${input}
    COMMAND ${CMAKE_COMMAND} -DINPUT=${ptx} -DOUTPUT=${source} -DNAME=${ARG_NAME}
            -DHEADER=${ARG_HEADER} -P ${PROJECT_SOURCE_DIR}/cmake/embed_text.cmake
    DEPENDS ${input} ${PROJECT_SOURCE_DIR}/src/device/element_code.h
            ${PROJECT_SOURCE_DIR}/cmake/embed_text.cmake
    COMMENT "Compiling ${ARG_INPUT} to PTX"
    VERBATIM)
  target_sources(${target} PRIVATE ${source})
endfunction()
