/* Both ends of a pseudo terminal. Its master, or where it is said either side, is given. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* Either side. 0 rows or columns: 24, 80. The foreground processes get SIGWINCH when it changes. */
void box_tty_resize(int fd, uint16_t rows, uint16_t columns);

/* Types the end-of-file character (VEOF), when the terminal is in a mode that knows one. False: it
 * takes no more now (the master is nonblocking). */
bool box_tty_end_input(int master);

/* Of descriptors that somebody else made: are they a master, nonblocking from now on, and another
 * terminal? */
bool box_tty_check(int master, int other);
