"""What agent-fabric's configuration learns of this package. It is read at every start, so it imports nothing."""

SETTINGS = {
    "description": "Answers questions about tables: reads CSV files, describes their columns, adds up figures.",
    "keywords": ["csv", "spreadsheet", "column", "rows", "sales figures", "average", "total by"],
    "workflow": ["save the data", "profile it", "calculate", "answer"],
    "builder": "csv_analyst.pack:build",
}
