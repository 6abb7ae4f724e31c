// Names a place in S3-compatible storage as people write it.

/** s3://bucket, or s3://bucket/folder. */
export const backupLocation = ({ bucket, prefix }: { bucket: string; prefix: string }): string =>
  `s3://${bucket}${prefix === '' ? '' : `/${prefix}`}`
