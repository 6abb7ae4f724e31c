// Texts of the mails: plain text, short lines, at most one link, built from the configured address and never from a
// request. Names come from users, so they appear only inside sentences, on one line.
import { showBytes } from '@berth/shared/units'

const oneLine = (text: string): string => text.replaceAll(/[\p{Cc}\u2028\u2029]+/gu, ' ').trim()

export interface LetterText {
  subject: string
  text: string
  /** Why, where the subject does not say it. */
  reason?: string
}

const letter = (subject: string, lines: string[]): LetterText => ({
  subject: oneLine(subject),
  text: [...lines, ''].join('\n'),
})

export const passwordResetLetter = (o: {
  name: string
  baseUrl: string
  token: string
}): LetterText =>
  letter('Choose a new password', [
    `Hello ${oneLine(o.name)},`,
    '',
    'someone, hopefully you, asked for a new password at',
    `${o.baseUrl}. To choose one, open this link within an hour; it works once:`,
    '',
    `${o.baseUrl}/reset/${encodeURIComponent(o.token)}`,
    '',
    'If it was not you, do nothing: your password stays as it is.',
  ])

export const invitationLetter = (o: {
  inviter: string
  organization: string
  role: string
  baseUrl: string
  token: string
}): LetterText =>
  letter(`Invitation to ${o.organization}`, [
    'Hello,',
    '',
    `${oneLine(o.inviter)} invites you to work in ${oneLine(o.organization)} at`,
    `${o.baseUrl}, as ${o.role}. To accept, open this link within 7 days;`,
    'it works once and only for this address:',
    '',
    `${o.baseUrl}/invite/${encodeURIComponent(o.token)}`,
    '',
    'If you did not expect this, do nothing.',
  ])

const minutes = (ms: number): string => `${Math.max(1, Math.round(ms / 60_000))} minutes`
const minute = (ms: number): string => new Date(ms).toISOString().slice(0, 16).replace('T', ' ')

export const offlineLetter = (o: { server: string; forMs: number; url: string }): LetterText =>
  letter(`Server ${o.server} is offline`, [
    `Nothing was heard of the server ${oneLine(o.server)} for ${minutes(o.forMs)}.`,
    '',
    'Deployments to it wait. What runs there keeps running if the machine does.',
    'Look whether the machine is up and has a network, and whether berth-agent',
    'runs on it (systemctl status berth-agent).',
    '',
    o.url,
  ])

export const onlineLetter = (o: { server: string; forMs: number; url: string }): LetterText =>
  letter(`Server ${o.server} is back`, [
    `The server ${oneLine(o.server)} is connected again, after ${minutes(o.forMs)}.`,
    '',
    o.url,
  ])

export const diskLetter = (o: {
  server: string
  freeBytes: number
  diskBytes: number
  url: string
}): LetterText =>
  letter(`Server ${o.server} is running out of disk space`, [
    `The server ${oneLine(o.server)} has ${showBytes(o.freeBytes)} of ${showBytes(o.diskBytes)} left.`,
    '',
    'Deployments are refused when nothing is left. Remove environments that are not',
    'needed, old images and logs, or give the machine a larger disk.',
    '',
    o.url,
  ])

export const diskRecoveredLetter = (o: {
  server: string
  freeBytes: number
  url: string
}): LetterText =>
  letter(`Server ${o.server} has disk space again`, [
    `The server ${oneLine(o.server)} has ${showBytes(o.freeBytes)} left.`,
    '',
    o.url,
  ])

export const certificateLetter = (o: { server: string; endsAt: number; url: string }): LetterText =>
  letter(`The agent of ${o.server} does not renew its certificate`, [
    `The certificate of the agent on ${oneLine(o.server)} ends on ${minute(o.endsAt)} UTC`,
    'and should have been renewed by now. After that the server cannot connect.',
    '',
    'Restart berth-agent there and look at its log; a wrong clock is the usual cause.',
    'If that does not help, make a new join token and run its command on the server.',
    '',
    o.url,
  ])

export const certificateRenewedLetter = (o: { server: string; url: string }): LetterText =>
  letter(`The agent of ${o.server} has a new certificate`, [
    `The agent on ${oneLine(o.server)} renewed its certificate. Nothing is to be done.`,
    '',
    o.url,
  ])

export const degradedLetter = (o: {
  environment: string
  project: string
  reason: string
  url: string
}): LetterText => ({
  ...letter(`${o.environment} of ${o.project} is degraded`, [
    `${oneLine(o.environment)} of ${oneLine(o.project)} does not run as it was deployed:`,
    '',
    oneLine(o.reason).slice(0, 300),
    '',
    o.url,
  ]),
  reason: o.reason,
})

export const recoveredLetter = (o: {
  environment: string
  project: string
  url: string
}): LetterText =>
  letter(`${o.environment} of ${o.project} has recovered`, [
    `${oneLine(o.environment)} of ${oneLine(o.project)} runs as it was deployed again.`,
    '',
    o.url,
  ])

export const channelBrokenLetter = (o: {
  channel: string
  organization: string
  reason: string
  url: string
}): LetterText =>
  letter(`Notifications to ${o.channel} fail`, [
    `Berth stopped sending notifications of ${oneLine(o.organization)} to the channel`,
    `${oneLine(o.channel)}, because it failed for long:`,
    '',
    oneLine(o.reason).slice(0, 300),
    '',
    'Correct its address or the receiver, then send a test from the page below: that',
    'starts it again. Skipped notifications can be replayed there.',
    '',
    o.url,
  ])

export const backupFailedLetter = (o: { place: string; reason: string; url: string }): LetterText =>
  letter('The backup of Berth failed', [
    `The scheduled backup of Berth at ${o.url} to`,
    `${oneLine(o.place)} failed:`,
    '',
    oneLine(o.reason).slice(0, 500),
    '',
    'Earlier backups are untouched. The next one is made when the schedule says so;',
    'to make one now, run berth-server backup there. berth-server backup list shows',
    'what failed.',
  ])

export const backupRecoveredLetter = (o: { place: string; url: string }): LetterText =>
  letter('The backup of Berth works again', [
    `The scheduled backup of Berth at ${o.url} to`,
    `${oneLine(o.place)} was made.`,
  ])

export const dataBackupFailedLetter = (o: {
  environment: string
  project: string
  reason: string
  url: string
}): LetterText =>
  letter(`The backup of ${o.environment} of ${o.project} failed`, [
    `The scheduled backup of ${oneLine(o.environment)} of ${oneLine(o.project)} failed:`,
    '',
    oneLine(o.reason).slice(0, 300) || 'see the log of its task',
    '',
    'Earlier backups are untouched. The next one is made when the schedule says so;',
    'another mail comes when one has succeeded.',
    '',
    o.url,
  ])

export const dataBackupRecoveredLetter = (o: {
  environment: string
  project: string
  url: string
}): LetterText =>
  letter(`The backup of ${o.environment} of ${o.project} works again`, [
    `The scheduled backup of ${oneLine(o.environment)} of ${oneLine(o.project)} was made.`,
    '',
    o.url,
  ])

export const deliveryLetter = (o: {
  project: string
  event: string
  reason: string
  url: string
}): LetterText =>
  letter(`A webhook of ${o.project} could not be worked on`, [
    `An event (${oneLine(o.event)}) of the repository of ${oneLine(o.project)} arrived,`,
    'but handling it failed:',
    '',
    oneLine(o.reason).slice(0, 300) || 'an internal error',
    '',
    'Nothing was deployed because of it. Repeat the delivery from the project page,',
    'or deploy by hand.',
    '',
    o.url,
  ])

export const forgeLetter = (o: {
  project: string
  repository: string
  reason: string
  url: string
}): LetterText =>
  letter(`The connection of ${o.project} to its forge is broken`, [
    `Berth looked at the repository ${oneLine(o.repository)} of ${oneLine(o.project)}`,
    'and found that something no longer works:',
    '',
    oneLine(o.reason).slice(0, 500),
    '',
    'Pushes and pull requests may not be deployed until it is repaired. The page of the',
    'project shows every check and repairs it:',
    '',
    o.url,
  ])

export const forgeRecoveredLetter = (o: { project: string; url: string }): LetterText =>
  letter(`The connection of ${o.project} to its forge works again`, [
    `Token, deploy key and webhook of ${oneLine(o.project)} work again.`,
    '',
    o.url,
  ])
