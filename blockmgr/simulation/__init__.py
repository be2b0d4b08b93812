"""What paging saves, shown on the real allocator: scenarios, their figures, and their pictures.

Nothing here serves anyone: a ``Driver`` plays an executor on a pool that lives and dies with the process.
"""
