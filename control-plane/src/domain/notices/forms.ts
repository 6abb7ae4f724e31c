// The form of a notification for each kind of channel. PURE. Only our own words are markup: texts from outside are
// escaped or put where the receiver reads no markup, and nothing in them can mention people.
import type { ChannelKind } from '@berth/shared'
import type { Message, Notice, Tone } from './notice.ts'

const iso = (ms: number): string => new Date(ms).toISOString().replace(/\.\d{3}Z$/, 'Z')

/** The body of an outgoing webhook; docs/guide/notifications.md documents it. */
function webhookBody(notice: Notice, message: Message, baseUrl: string): object {
  const { environment, task, server, project } = notice
  return {
    type: notice.happening,
    timestamp: iso(notice.at),
    data: {
      title: message.title,
      reason: notice.reason,
      organization: notice.organization,
      project: project && { ...project, url: `${baseUrl}/projects/${project.id}` },
      environment: environment && {
        id: environment.id,
        identifier: environment.identifier,
        type: environment.isPreview ? 'preview' : 'manual',
        protected: environment.isProtected,
        address: environment.address,
        url: `${baseUrl}/environments/${environment.id}`,
      },
      pull_request: notice.pullRequest,
      server: server && { ...server, url: `${baseUrl}/servers/${server.id}` },
      task: task && {
        id: task.id,
        type: task.type,
        action: task.action,
        branch: task.branch,
        commit_sha: task.commitSha,
        commit_message: task.commitMessage,
        triggered_by: task.by,
        failed_step: task.failedStep,
        message: task.message,
        error_line: task.errorLine,
        url: `${baseUrl}/tasks/${task.id}`,
        diagnostics_url: `${baseUrl}/api/tasks/${task.id}/diagnostics`,
      },
    },
  }
}

const MARKS: Record<Tone, string> = { bad: '✗', good: '✓', neutral: '•' }

/** Slack reads `<…>` in the fallback text; rich text elements hold plain text only. */
const slackText = (text: string): string =>
  text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;')

function slackBody(message: Message): object {
  const text = (words: string, style?: object) => ({
    type: 'text',
    text: words,
    ...(style ? { style } : {}),
  })
  const section = (elements: object[]) => ({ type: 'rich_text_section', elements })
  const title = `${MARKS[message.tone]} ${message.title}`
  const rest = [
    ...message.lines.map((line) => `\n${line}`),
    ...message.facts.map(([name, value]) => `\n${name}: ${value}`),
  ].map((line) => text(line))
  const links = message.links.flatMap(({ text: words, url }, i) => [
    text(i === 0 ? '\n' : ' · '),
    { type: 'link', url, text: words },
  ])
  const output = message.output
    ? [{ type: 'rich_text_preformatted', elements: [text(message.output)] }]
    : []
  return {
    text: slackText(title),
    unfurl_links: false,
    unfurl_media: false,
    blocks: [
      {
        type: 'rich_text',
        elements: [section([text(title, { bold: true }), ...rest]), ...output, section(links)],
      },
    ],
  }
}

const COLOURS: Record<Tone, number> = { bad: 0xd1_34_38, good: 0x2f_9e_44, neutral: 0x86_8e_96 }

/** A backslash before everything that Markdown reads; each chat shows the backslash before other characters. */
const escapeMarkdown = (text: string): string =>
  text.replaceAll(/[\\`*_~|>[\](){}#+\-.!]/g, (mark) => `\\${mark}`)

/** Shown as it is; a fence inside would end the block. */
const codeBlock = (text: string): string => `\`\`\`\n${text.replaceAll('`', 'ˋ')}\n\`\`\``

function discordBody(message: Message): object {
  const [first, ...more] = message.links
  const description = [
    ...message.lines.map(escapeMarkdown),
    ...(message.output ? [codeBlock(message.output)] : []),
    ...more.map(({ text, url }) => `[${text}](<${url}>)`),
  ].join('\n')
  return {
    allowed_mentions: { parse: [] },
    embeds: [
      {
        title: escapeMarkdown(message.title).slice(0, 256),
        url: first?.url,
        color: COLOURS[message.tone],
        description: description.slice(0, 4_000),
        fields: message.facts.map(([name, value]) => ({
          name,
          value: escapeMarkdown(value).slice(0, 1_000) || '-',
          inline: true,
        })),
      },
    ],
  }
}

const CARD_COLOURS: Record<Tone, string> = { bad: 'Attention', good: 'Good', neutral: 'Default' }

/** Text runs of an adaptive card hold plain text; text blocks would read Markdown. */
function teamsBody(message: Message): object {
  const runs = (words: string, more: object = {}) => ({
    type: 'RichTextBlock',
    inlines: [{ type: 'TextRun', text: words, ...more }],
  })
  const title = { weight: 'Bolder', size: 'Medium', color: CARD_COLOURS[message.tone] }
  return {
    type: 'message',
    attachments: [
      {
        contentType: 'application/vnd.microsoft.card.adaptive',
        contentUrl: null,
        content: {
          $schema: 'http://adaptivecards.io/schemas/adaptive-card.json',
          type: 'AdaptiveCard',
          version: '1.4',
          body: [
            runs(message.title, title),
            ...message.lines.map((line) => runs(line)),
            ...(message.output ? [runs(message.output, { fontType: 'Monospace' })] : []),
            ...message.facts.map(([name, value]) => runs(`${name}: ${value}`, { isSubtle: true })),
          ],
          actions: message.links.map(({ text, url }) => ({
            type: 'Action.OpenUrl',
            title: text,
            url,
          })),
        },
      },
    ],
  }
}

/** Mattermost reads mentions from the text of an incoming webhook, escaped or not, so a blank of no width breaks them. */
const mattermostText = (text: string): string =>
  escapeMarkdown(text).replaceAll('@', '@\u200b').replaceAll('\\~', '~\u200b')

function mattermostBody(message: Message): object {
  const output = message.output ? [codeBlock(message.output.replaceAll('@', '@\u200b'))] : []
  return {
    text: [
      `**${MARKS[message.tone]} ${mattermostText(message.title)}**`,
      ...message.lines.map(mattermostText),
      ...output,
      ...message.facts.map(([name, value]) => `${name}: ${mattermostText(value)}`),
      message.links.map(({ text, url }) => `[${text}](${url})`).join(' · '),
    ].join('\n'),
  }
}

/** The JSON of a request to a chat or webhook. */
export function requestBody(
  kind: Exclude<ChannelKind, 'email'>,
  notice: Notice,
  message: Message,
  baseUrl: string,
): object {
  switch (kind) {
    case 'slack':
      return slackBody(message)
    case 'discord':
      return discordBody(message)
    case 'teams':
      return teamsBody(message)
    case 'mattermost':
      return mattermostBody(message)
    case 'webhook':
      return webhookBody(notice, message, baseUrl)
  }
}

export function mailText(message: Message): { subject: string; text: string } {
  const parts = [
    [message.title],
    message.lines,
    message.output ? [`  ${message.output}`] : [],
    message.facts.map(([name, value]) => `${name}: ${value}`),
    message.links.map(({ url }) => url),
  ]
  const text = parts
    .filter((lines) => lines.length > 0)
    .map((lines) => lines.join('\n'))
    .join('\n\n')
  return { subject: message.title, text: `${text}\n` }
}
