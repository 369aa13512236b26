/** Loads the writer of Parquet, with the library that it needs: only those who ask for Parquet wait for it. */
export const loadParquet = () => import('./ParquetFile.js');
