/* Stands in for the kernel's header; ioh never asks for a version, BCC's headers do. */
#ifndef _LINUX_VERSION_H
#define _LINUX_VERSION_H
#define KERNEL_VERSION(a, b, c) (((a) << 16) + ((b) << 8) + ((c) > 255 ? 255 : (c)))
#ifndef LINUX_VERSION_CODE
#define LINUX_VERSION_CODE KERNEL_VERSION(5, 10, 0)
#endif
#endif
