// On a page with the state of the node, after app.js, whose names it uses: follows the
// node by one stream, closed while the page is hidden, and on the front page fills the
// feed.
const state = document.getElementById('live-state'), feed = document.getElementById('feed')
const pause = document.getElementById('feed-pause'), fresh = document.getElementById('feed-new'), asOf = document.getElementById('as-of')
const url = new URL(state.dataset.stream, location)
let source, held = [], paused = false, heard = Date.now(), read = heard, unsaid = 0, newest, count

const show = (name, text) => {
  state.dataset.state = name
  state.querySelector('.text').textContent = text
}
const lost = () => show('stale', `Reconnecting, last heard ${exact(heard).slice(11)}`)
// Numbers that were not read for three heartbeats say how old they are.
const grey = () => {
  const old = Date.now() - read > 45000
  root.classList.toggle('stale', old)
  asOf.textContent = old ? `as of ${relative(read, Date.now())}` : ''
}

const row = e => {
  const li = document.getElementById('feed-row').content.firstElementChild.cloneNode(true)
  const get = selector => li.querySelector(selector)
  li.dataset.seq = e.seq
  get('.ico').className = 'ico ' + e.icon
  get('use').setAttribute('href', '#i-' + e.icon)
  const hash = get('.hash')
  hash.dataset.h = e.agent ?? ''
  Object.assign(hash.firstElementChild, { href: e.agentHref ?? '', title: e.agent ?? '', textContent: e.who ?? '' })
  get('.verb').textContent = e.verb
  get('.thing').href = e.href
  get('.thing bdi').textContent = e.what
  get('.tail').textContent = e.tail ?? ''
  get('.sub').textContent = e.sub ?? ''
  const time = document.createElement('time')
  time.dateTime = new Date(e.at).toISOString()
  get('.t').replaceChildren(time)
  li.classList.add('new')
  setTimeout(() => li.classList.remove('new'), 2000)
  return li
}
const put = list => {
  document.getElementById('feed-empty')?.remove()
  feed.prepend(...list.map(row).reverse())
  while (feed.children.length > 100) feed.lastElementChild.remove()
  age()
}
const button = () => {
  fresh.hidden = held.length === 0
  fresh.textContent = `${held.length === 100 ? 'over ' : ''}${held.length} new`
}
// Bars as the server draws them.
const spark = document.querySelector('.spark')
const draw = minutes => {
  const most = Math.max(...minutes)
  const bars = minutes.map((n, i) => {
    const height = n ? Math.max(3, Math.round(40 * n / most)) : 1
    return `M${10 * i} 40v-${height}h7v${height}z`
  })
  spark.lastChild.setAttribute('d', bars.pop())
  spark.firstChild.setAttribute('d', bars.join(''))
  spark.ariaLabel = spark.ariaLabel.replace(/\S+ in one/, `${most.toLocaleString('en-US')} in one`)
}
const recount = () => {
  count ??= setTimeout(async () => {
    count = undefined
    try {
      const now = await (await fetch(state.dataset.status)).json()
      const fill = (name, find) => all(`[data-${name}]`).forEach(el => { el.textContent = find(el.dataset[name]).toLocaleString('en-US') })
      fill('count', path => path.split('.').reduce((v, key) => v[key], now))
      all('[data-one]').forEach(el => { el.textContent = el.previousElementSibling.textContent === '1' ? el.dataset.one : el.dataset.many })
      fill('head', id => now.chains.find(c => c.chainId === +id).head)
      if (spark) draw(now.batchesLastHour)
      read = Date.now()
      grey()
      if (now.healthy !== ('healthy' in state.dataset) && !paused) location.reload() // the page says why
    } catch {} // the stream's own state tells that the node is away
  }, 1000)
}
const open = () => {
  source = new EventSource(url)
  const beat = () => {
    heard = Date.now()
    if (state.dataset.state === 'stale') recount()
    show(paused ? 'paused' : 'on', paused ? 'Paused' : 'Connected')
  }
  source.onopen = beat
  source.addEventListener('beat', () => {
    beat()
    recount() // a rate falls while nothing happens
  })
  source.addEventListener('reload', () => location.reload()) // the node has started again, what is shown may lack something
  source.addEventListener('missed', e => say(`${JSON.parse(e.data).missed} events are not shown`))
  source.onmessage = m => {
    beat()
    url.searchParams.set('since', m.lastEventId)
    unsaid++
    newest = JSON.parse(m.data)
    recount()
    if (!feed) return
    if (paused) {
      held = [...held, newest].slice(-100)
      button()
    } else put([newest])
  }
  source.onerror = lost
}

if (feed) {
  pause.onclick = () => {
    paused = !paused
    pause.setAttribute('aria-pressed', paused)
    pause.textContent = paused ? 'Resume' : 'Pause'
    show(paused ? 'paused' : 'on', paused ? 'Paused' : 'Connected')
    if (!paused) fresh.onclick()
  }
  fresh.onclick = () => {
    put(held)
    held = []
    button()
  }
  // Whoever hears the page is told twice a minute, not of every row.
  setInterval(() => {
    if (unsaid) say(`${unsaid === 1 ? '1 new event' : `${unsaid} new events, the last`}: ${newest.who ?? ''} ${newest.verb} ${newest.what}${newest.tail ?? ''}`)
    unsaid = 0
  }, 30000)
}
document.addEventListener('visibilitychange', () => {
  source?.close()
  if (!document.hidden) open()
})
setInterval(() => {
  if (document.hidden) return
  if (Date.now() - heard > 32000) lost()
  if (source?.readyState === 2) open() // refused: tried again
  grey()
}, 5000)
if (!document.hidden) open()
