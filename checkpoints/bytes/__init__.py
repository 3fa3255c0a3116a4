"""The ASGI app for bytes, beside Django: nothing here holds a whole body in memory or on Django's temporary files."""
