# cmake -DIN=header -DOUT=copy -P header.cmake: includes of our layers become "box/...".
file(READ ${IN} text)
string(REGEX REPLACE "(#include \")(base|wire|google)/" "\\1box/\\2/" text "${text}")
file(WRITE ${OUT} "${text}")
