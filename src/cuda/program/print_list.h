/* Launch lists as text, for golden files (tests/golden/launches) and docs/cuda.md. */
#ifndef CUDA_PROGRAM_PRINT_LIST_H
#define CUDA_PROGRAM_PRINT_LIST_H

#include <stdio.h>

#include "backend/program.h"
#include "cuda/launch/launch_list.h"

/* Prints a header and one line for each launch:
 *
 *   #  stages  layer  kernel  grid block shared cluster PDL  (early reads) reads -> writes
 *
 * `stages` are the program's ops whose tensors the launch touches, `layer` is that of the op for
 * which its time counts. Shared memory is the dynamic part in bytes. Early reads happen before
 * griddepcontrol.wait. Tensors have the names of the program, and workspaces have the prefix
 * "ws:". */
void launch_list_print(FILE *out, const struct launch_list *list, const struct program *p);

/* The name of a workspace: "cos_sin". */
const char *workspace_name(int workspace);

#endif
