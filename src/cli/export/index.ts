export const loadParquet = () => import('./ParquetFile.js');
