/* Names of GGUF files: a model may be split into NAME-00001-of-00003.gguf and so on. */
#ifndef BASE_GGUF_FILES_H
#define BASE_GGUF_FILES_H

#include <stdbool.h>
#include <stddef.h>

#include "base/status.h"

enum { GGUF_SPLITS_MAX = 1024 }; /* gpt-oss-120b has 3 */

/* Reads "NAME-00002-of-00003.gguf" as 2 and 3; *n_prefix: bytes before the dash. False for other
 * names, and if the number is not from 1 to the count. */
bool gguf_split_parse(const char *path, size_t *n_prefix, int *number, int *count);
/* The path of another part of that model. Gives a string to free(). */
char *gguf_split_path(const char *path, int number);

/* The path without .gguf and without the number of a part: "gpt-oss-20b-Q8_0". Of another path, the
 * path itself. Gives a string to free(). */
char *gguf_model_name(const char *path);

/* Sets *out to the GGUF model in a folder (of a split model, its first part), to be freed; NULL if
 * there is none, or no such folder. Projectors of other models (mmproj) are none. OSP_EINVAL lists
 * the models if there are several. */
CHECKED enum osp_status gguf_in_folder(char **out, const char *folder);

#endif
