/* Stands in for the kernel's header; BCC's helpers include it and need nothing of it. */
#ifndef _LINUX_LOG2_H
#define _LINUX_LOG2_H
#endif
