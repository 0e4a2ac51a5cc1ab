// Linked into programs built with the address sanitizer: components that MPI loads stay loaded to the end, so that the
// leak check can name the library of a leak and the list of known ones (lsan.supp) applies.
int dlclose(void* handle) {
  (void)handle;
  return 0;
}
