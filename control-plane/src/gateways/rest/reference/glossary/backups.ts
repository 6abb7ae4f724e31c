// Backups of the data of environments, their settings and their storage.

import type { Glossary } from './entries.ts'
import { QUEUED } from './everywhere.ts'

export const BACKUPS: Glossary = {
  operations: {
    listEnvironmentBackups: {
      says: 'Lists the backups of one environment on one page, also those that are being made or failed.',
    },
    createEnvironmentBackup: {
      says: 'Queues a task that archives volumes, the shared folder and the output of backup commands. Services are paused while their volumes are archived, unless `live` is true.',
      body: { place: 'bucket', message: 'before the migration' },
      answer: { ...QUEUED, type: 'backup', message: 'before the migration' },
    },
    listProjectBackups: {
      says: 'Lists the backups of all environments of a project. Those in a bucket are listed for 30 days after their environment was removed.',
    },
    getBackup: { says: 'Answers one backup with its parts, sizes and hashes.' },
    postBackupRestore: {
      says: 'Queues a task that replaces the data of an environment by that of a backup. The present data is lost; back it up first. 409 `backup_not_restorable` says why a backup does not fit.',
      body: { confirm: 'pr-42', message: 'undo the migration' },
      answer: { ...QUEUED, type: 'restore', message: 'undo the migration' },
    },
    getEnvironmentBackupSettings: {
      says: 'Answers schedule, place and retention, with the next and the last run of the schedule.',
    },
    updateEnvironmentBackupSettings: {
      says: 'Changes the given settings; absent fields stay as they are. A null `schedule` ends scheduled backups. Retention applies when the next backup succeeds.',
    },
    listEnvironmentBackupRuns: {
      says: 'Lists what became of each scheduled backup: started, skipped or missed, and why.',
    },
    getOrganizationBackupStorage: {
      says: 'Answers the bucket of the organization and the public key that encrypts its backups. 404 if none is set. The secret key is never returned.',
    },
    setOrganizationBackupStorage: {
      says: 'Sets the S3-compatible bucket for backups of all projects, or replaces its credentials. The encryption key stays the same, so earlier backups can still be read.',
    },
    deleteOrganizationBackupStorage: {
      says: 'Removes the bucket’s settings and the key that opens its backups. Refused while backups are in it (409 `backup_storage_used`).',
    },
  },
  fields: {
    '/backups/{id}': ['The backup, by the `id` in the list.', '77'],

    'Backup.id': ['Names it in paths.', 77],
    'Backup.uuid': [
      'Its name on the server’s disk and in the bucket.',
      '0b54c1e2-7d1f-4a0e-9a55-2f1c7e6d9b10',
    ],
    'Backup.environment_id': ['The environment it was made of.', 101],
    'Backup.environment': ['The identifier of that environment, also after its removal.', 'pr-42'],
    'Backup.server_id': ['The server that made it.', 3],
    'Backup.task_id': ['The task that made it; its log says what was archived.', 815],
    'Backup.status': ['Only a `complete` one can be restored.', 'complete'],
    place: [
      '`server`: on the disk of the server. `bucket`: encrypted, in the organization’s storage.',
      'bucket',
    ],
    'Backup.location': [
      'The bucket and its folder; null: on the disk of the server.',
      's3://engines-backups/berth',
    ],
    live: ['Services ran while their data was archived, so files may not fit together.', false],
    'BackupCreate.live': ['True: do not pause services while their volumes are archived.', false],
    'BackupCreate.place': [
      'Where to store it; without it, as the environment’s settings say.',
      'bucket',
    ],
    'BackupCreate.message': [
      'A note for the history, at most 500 characters.',
      'before the migration',
    ],
    'Backup.commit_sha': [
      'The commit that ran when it was made; null: not known.',
      'c1364990f2b7a4e85d6f3b0a9c8e7d6f5a4b3c2d',
    ],
    'Backup.triggered_by': ['Who asked for it, or the schedule.'],
    'Backup.size_bytes': ['Bytes of all parts as stored; 0 until it is complete.', 48_230_400],
    content_bytes: ['Bytes before compression and encryption.', 130_023_424],
    'Backup.parts': ['One for each volume, folder or command; empty until it is complete.'],
    'parts.file': ['Its file in the backup.', 'volume-db.tar.gz.age'],
    'parts.kind': ['`folder` is the shared folder of a manual environment.', 'volume'],
    'parts.name': ['The volume, or the service whose command wrote it.', 'db'],
    'Backup.completed_at': ['When it was complete; null before that.', '2026-11-15T02:00:41Z'],

    'BackupRestore.environment_id': [
      'Another environment of the same project that gets the data; without it, the one it was made of.',
      101,
    ],
    'BackupRestore.confirm': [
      'Repeats the identifier of the environment whose data is replaced; a protected one needs it.',
      'pr-42',
    ],
    'BackupRestore.message': [
      'A note for the history, at most 500 characters.',
      'undo the migration',
    ],

    'BackupSettings.schedule': ['When backups are made; null: only on request.'],
    'BackupSettingsPatch.schedule': ['When backups are made; null ends the schedule.'],
    keep_count: ['How many complete backups stay, 1 to 366; 7 at first.', 7],
    keep_days: ['Older ones go, 1 to 3,650 days; null: any age stays.', 30],

    'BackupStorage.endpoint': ['The address of the storage.', 'https://s3.example.com'],
    'BackupStorage.region': ['The region that requests are signed for.', 'eu-central-1'],
    'BackupStorage.bucket': ['The bucket that holds the backups.', 'engines-backups'],
    'BackupStorage.prefix': ['The folder in the bucket; empty: its top.', 'berth'],
    'BackupStorage.access_key_id': ['The public half of the credentials.', 'AKIAEXAMPLE'],
    'BackupStorage.recipient': [
      'The public key of age that backups are encrypted for; the control plane keeps the secret one.',
      'age1exampleexampleexampleexampleexampleexampleexampleexamplee',
    ],
    'BackupStoragePut.endpoint': [
      'The address of the storage, http or https, without user name and query.',
      'https://s3.example.com',
    ],
    'BackupStoragePut.region': ['The region that requests are signed for.', 'eu-central-1'],
    'BackupStoragePut.bucket': [
      'The bucket must exist; Berth does not create it.',
      'engines-backups',
    ],
    'BackupStoragePut.prefix': ['A folder in the bucket, such as `berth/backups`.', 'berth'],
    'BackupStoragePut.access_key_id': ['The public half of the credentials.', 'AKIAEXAMPLE'],
    'BackupStoragePut.secret_access_key': [
      'The secret half. It is stored encrypted and never returned.',
      'example-secret-key',
    ],
  },
}
