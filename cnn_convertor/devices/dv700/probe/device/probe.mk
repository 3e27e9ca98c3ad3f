# Builds the probe: `make` on the board, or `make CROSS_COMPILE=aarch64-linux-gnu-` on a PC.
# SDK: the folder with the SDK's headers and libraries, if the compiler does not find them.
CXX := $(CROSS_COMPILE)g++
CXXFLAGS ?= -O2
SDK_FLAGS = $(if $(SDK),-I$(SDK)/include -L$(SDK)/lib)
LDLIBS ?= -ldmpdv

probe: probe.cpp board.h commands.h
	$(CXX) -std=c++11 -Wall -Wextra $(CXXFLAGS) $(SDK_FLAGS) probe.cpp -o $@ $(LDLIBS)

clean:
	rm -f probe
.PHONY: clean
