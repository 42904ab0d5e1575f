/* Stands in for the kernel's header; BCC's helpers include it and need nothing of it. */
