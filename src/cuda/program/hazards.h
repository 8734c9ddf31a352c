/* Checks of launch lists: each launch reads what the program's ops mean it to read. Pure: it looks
 * at the notes of what the launches read and write (struct touch), and at no device. */
#ifndef CUDA_PROGRAM_HAZARDS_H
#define CUDA_PROGRAM_HAZARDS_H

#include "backend/program.h"
#include "cuda/launch/launch_list.h"
#include "cuda/program/fuse.h"

/* OSP_EINTERNAL with the launch, the kernel, the tensor and the op, if the list of these counts
 *
 *   - reads for op i another version of a tensor than that of the last op before i which writes it;
 *     for a tensor that no op before i writes, the version of before the step
 *   - writes a tensor that some launch reads before griddepcontrol.wait
 *   - reads a workspace which no launch for the same op wrote last, or, where it has the rows of a
 *     tensor in another form (copy_of), those of another tensor or version; except for merge_bufs,
 *     which is zero at first, the batch, which is uploaded before the step, and cos_sin, which one
 *     launch makes for all layers
 *   - leaves in a tapped tensor another version than that of its last writer.
 *
 * The op that a write's note names is the version. Which rows a launch touches is not noted, so
 * that two launches for decode and prefill rows of one op write the same version. */
CHECKED enum osp_status launch_list_check(const struct launch_list *list, const struct program *p,
                                          const struct step_counts *counts);

#endif
