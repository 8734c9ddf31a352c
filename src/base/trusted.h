/* Files that this process obeys: plug-ins, which run in it, and packed weights, which it
 * computes with. Whoever can write one, or put another in its place, is this program; so only
 * root and the user who runs it may be able to. */
#ifndef BASE_TRUSTED_H
#define BASE_TRUSTED_H

#include "base/status.h"

/* Opens folder/name for reading, close-on-exec, if it is a regular file that root or this
 * process's effective user owns and that neither its group nor others may write, and if the same
 * holds for the folder. A symbolic link is followed, and what it leads to must pass likewise.
 * What the descriptor reads is what was checked, whatever becomes of the name. OSP_ENOTFOUND:
 * there is no such file. OSP_EIO: it was refused; the message says what to do. */
CHECKED enum osp_status trusted_open(int *fd, const char *folder, const char *name);

/* OSP_OK when what is in the folder can be trusted as far as the folder itself goes. */
CHECKED enum osp_status trusted_folder_check(const char *folder);

#endif
