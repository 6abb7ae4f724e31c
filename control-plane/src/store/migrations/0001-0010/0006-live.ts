// Keys for subscribers, leases of mails, and alerts.
import type { Migration } from '../../engine/migration.ts'

export const live: Migration = {
  name: '0006-live',
  statements: ({ id }) => [
    'create index events_organization on events(organization_id, seq)',
    // the sender's lease: two processes never send the same mail concurrently
    'alter table mails add column lease_until bigint',
    'alter table mails add column given_up_at bigint',
    'create index mails_age on mails(created_at)',
    // from heartbeats; the machine's facts come once per session
    'alter table agents add column disk_free_bytes bigint',
    `create table alerts (
      id ${id}, organization_id integer not null references organizations(id),
      kind text not null, subject_id integer not null, begun_at bigint not null, ended_at bigint)`,
    // one open episode per subject, even with concurrent writers
    'create unique index alerts_open on alerts(kind, subject_id) where ended_at is null',
    'create index alerts_organization on alerts(organization_id, id)',
    'create index alerts_age on alerts(ended_at) where ended_at is not null',
    `create index deliveries_errors on deliveries(id) where outcome = 'error'`,
  ],
}
