"""How the notebooks become a website: pairs, execution, staging, build, checks."""
