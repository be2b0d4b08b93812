"""What each kernel computes, written as plainly as possible in float32: tests compare with it, nothing serves with it."""
