/* Which source this program was made from, for results that must be found again. */
#ifndef CLI_OPTIONS_BUILD_ID_H
#define CLI_OPTIONS_BUILD_ID_H

/* What `git describe` said when it was built, "unknown" outside of a repository. */
const char *build_id(void);

#endif
