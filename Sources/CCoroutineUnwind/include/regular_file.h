// SPDX-License-Identifier: Apache-2.0

// Opens files whose names may come from anywhere.
#pragma once

// Opens a regular file to be read. Other files are not opened at all, since to open a device may do something, and a
// pipe may wait for its other end. -1 on failure: errno is EINVAL if it is no regular file.
int coroutine_open_regular_file(const char *path);
