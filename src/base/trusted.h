/* Files that this process trusts: plug-ins, which run in it, and packed weights, which it computes
 * with. Whoever can write or replace such a file controls this program, so only root and the user
 * who runs it may have write access. */
#ifndef BASE_TRUSTED_H
#define BASE_TRUSTED_H

#include "base/status.h"

/* Opens folder/name for reading, close-on-exec. It must be a regular file, owned by root or by this
 * process's effective user, and not writable by its group or others; the same holds for the folder.
 * A symbolic link is followed, and its target must pass the same checks. The checks apply to the
 * open descriptor, so that renaming or replacing the file later has no effect. OSP_ENOTFOUND: no
 * such file. OSP_EIO: the file was refused; the message names the remedy. */
CHECKED enum osp_status trusted_open(int *fd, const char *folder, const char *name);

/* OSP_OK when owner and permissions of the folder itself allow its files to be trusted. */
CHECKED enum osp_status trusted_folder_check(const char *folder);

#endif
