export const loadParquet = () => import('./growParquet.js');
