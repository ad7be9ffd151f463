"""A parent takes another's place, with its sockets, while requests come: new code, or the same anew."""
