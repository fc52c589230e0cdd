const char* k = "libnvrtc.so.12";
