/* Force-included before every file of ours: calls that have bitten everyone become compile errors.
 * The system headers that declare them must come first. */
#pragma once

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#pragma GCC poison strcpy strcat strncpy strncat sprintf vsprintf strtok gets
#pragma GCC poison atoi atol atoll atof system tmpnam mktemp

/* OpenSSL's headers have parameters of that name, which a poisoned word would break. */
int rand(void) __attribute__((unavailable("use box_random")));
void srand(unsigned seed) __attribute__((unavailable("use box_random")));
