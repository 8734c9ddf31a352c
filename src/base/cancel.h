/* Lets one thread stop the long work of another. The working thread registers a flag for the
 * duration of the work. Loops over input of any length check the flag from time to time and fail
 * with OSP_ECANCELED once it is set. A thread without a flag is never canceled. */
#ifndef BASE_CANCEL_H
#define BASE_CANCEL_H

#include <stdatomic.h>
#include <stdbool.h>

/* From now on this thread's work stops when *flag is true. Borrowed until cancel_end(). */
void cancel_begin(const atomic_bool *flag);
void cancel_end(void);
bool cancel_is_set(void); /* costs a few nanoseconds */

#endif
