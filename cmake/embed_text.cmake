# cmake -DINPUT=file -DOUTPUT=x.cc -DNAME=kName -DHEADER=folder/x.h -P embed_text.cmake
#
# Writes a text file as a constant of namespace kernelopt that ends in a zero
# byte. A list of numbers, since compilers limit the length of string literals.
file(READ ${INPUT} hex HEX)
string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${hex}")
string(REGEX REPLACE "((0x[0-9a-f][0-9a-f],){20})" "\\1\n" bytes "${bytes}")
file(WRITE ${OUTPUT}
     "#include \"${HEADER}\"\n\nnamespace kernelopt {\n\nconst char ${NAME}[] = {\n${bytes}0};\n\n}  // namespace kernelopt\n")
