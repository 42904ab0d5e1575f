/* Empty on purpose: BCC force-includes its own copy of this header. */
