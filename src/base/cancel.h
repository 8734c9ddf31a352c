/* Lets one thread end another's long work early. The thread that works names a flag for the time of
 * the work, and loops over input of any length ask now and then whether it has been set; they then
 * fail with OSP_ECANCELED. A thread without a flag is never canceled. */
#ifndef BASE_CANCEL_H
#define BASE_CANCEL_H

#include <stdatomic.h>
#include <stdbool.h>

/* From now on this thread's work ends once *flag is true. Borrowed until cancel_end(). */
void cancel_begin(const atomic_bool *flag);
void cancel_end(void);
bool cancel_is_set(void); /* costs a few nanoseconds */

#endif
