"""Software bills of materials: an inventory read inside a stack becomes CycloneDX and SPDX, and two of them a diff."""
