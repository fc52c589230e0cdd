const char* k = "libcuda.so.1";
