// What the commands of notifications and events print and return, for every.test.ts.
import type { Row } from './command-row.ts'
import type { Peer } from './peer.ts'
import { notification } from './samples-notices.ts'

const HERE = ['-p', 'shop', '-e', 'pr-42']
const SHOP = ['-p', 'shop']

const failedTest = (peer: Peer) =>
  peer.script('POST /api/channels/4/test', {
    json: [notification({ status: 'given_up', error: 'hooks.slack.com answered 404.' })],
  })

export const NOTICE_ROWS: Record<string, Row> = {
  'notify list': {
    pipe: /^4\tteam-chat\tslack\thooks\.slack\.com\tok\t/,
    shown: /team-chat +slack +hooks\.slack\.com +ok/,
    exits: [[0, SHOP]],
  },
  'notify add': {
    args: ['slack', '--name', 'team-chat', '--on', 'failed,server', '--url-stdin'],
    pipe: /^4\n$/,
    shown: /team-chat gets notifications at hooks\.slack\.com/,
    changes: 'POST /api/organizations/1/channels',
    exits: [
      [0, ['email', '--to', 'ops@example.com', ...SHOP, '--environments', 'preview']],
      [2, ['email']],
      [2, ['fax']],
      [2, ['slack']],
      [2, ['slack', '--on', 'sandwich', '--url-stdin']],
    ],
  },
  'notify edit': {
    args: ['team-chat', '--on', 'all', '--name', 'chat'],
    pipe: /^4\n$/,
    shown: /team-chat sends deployment\.failed of protected environments/,
    changes: 'PATCH /api/channels/4',
    exits: [[5, ['elsewhere', '--on', 'all']]],
  },
  'notify test': {
    args: ['team-chat'],
    pipe: /^delivered\tteam-chat\t200 ok\n$/,
    shown: /✓ team-chat: delivered/,
    changes: 'POST /api/channels/4/test',
    exits: [[1, ['4'], failedTest]],
  },
  'notify deliveries': {
    args: ['team-chat', '--status', 'delivered'],
    pipe: /^41\tdelivered\tdeployment\.failed\tshop \/ pr-42: deployment failed\t/,
    shown: /41 +✓ +shop \/ pr-42: deployment failed/,
  },
  'notify replay': {
    args: ['41'],
    pipe: /^42\n$/,
    shown: /Sends "shop \/ pr-42: deployment failed" again as 42/,
    changes: 'POST /api/notifications/41/replay',
    exits: [[2, ['newest']]],
  },
  'notify rotate-secret': {
    args: ['team-chat', '--yes'],
    pipe: /^whsec_AAAA\n$/,
    shown: /The former secret signs too until 2026-11-16T09:12:30Z/,
    changes: 'POST /api/channels/4/rotate_secret',
    exits: [[2, ['team-chat']]],
  },
  'notify remove': {
    args: ['team-chat', '--yes'],
    pipe: /^4\n$/,
    shown: /Removed team-chat/,
    changes: 'DELETE /api/channels/4',
    exits: [[2, ['team-chat']]],
  },
  events: {
    pipe: /^8231\t2026-11-15T09:12:30Z\ttask\.succeeded\tproject 12, environment 101, task 813, running\n$/,
    shown: /2026-11-15T09:12:30Z {2}task\.succeeded +project 12/,
    json: 'lines',
    exits: [[0, HERE]],
  },
}
