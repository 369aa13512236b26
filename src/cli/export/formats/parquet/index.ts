/** Loads the Parquet writer and its library, which only exports to Parquet need. */
export const loadParquet = () => import('./ParquetFile.js');
