/* Ctrl-C, recorded so that an answer can be stopped without ending the program. */
#ifndef CLI_TERMINAL_INTERRUPT_H
#define CLI_TERMINAL_INTERRUPT_H

#include <stdbool.h>

/* From now on Ctrl-C is recorded and does not end the program. */
void interrupt_catch(void);
bool interrupt_consume(void);   /* whether Ctrl-C was recorded; clears it */
int interrupt_descriptor(void); /* readable while a Ctrl-C is recorded; -1 before the first call of
                                   interrupt_catch() */

#endif
