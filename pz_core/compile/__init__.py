"""Template to SQL to graph: edges, ids, selection, watermark inference."""
