// Everything that these pages do beyond HTML. Without it they read the same.
const root = document.documentElement
const all = (selector, within = document) => [...within.querySelectorAll(selector)]
root.classList.add('js')

// One line for screen readers, said again even where it repeats.
const status = document.body.appendChild(Object.assign(document.createElement('div'), { className: 'vh', role: 'status' }))
const say = text => {
  status.textContent = ''
  setTimeout(() => { status.textContent = text }, 30)
}

const remember = (name, value) => {
  document.cookie = `${name}=${value};path=${document.querySelector('.brand').pathname};max-age=31536000;samesite=lax`
}

// The theme is a cookie, so that the server writes it into the next page.
const toggleTheme = () => {
  const dark = root.dataset.theme ? root.dataset.theme === 'dark' : matchMedia('(prefers-color-scheme: dark)').matches
  root.dataset.theme = dark ? 'light' : 'dark'
  remember('theme', root.dataset.theme)
}

const copyFrom = async button => {
  const target = button.dataset.copyFrom
  await navigator.clipboard.writeText(target ? document.getElementById(target).textContent : button.dataset.copy)
  button.classList.add('done')
  say('Copied')
  setTimeout(() => button.classList.remove('done'), 1200)
}

document.addEventListener('click', e => {
  if (e.target.closest('[data-theme-toggle]')) toggleTheme()
  const copy = e.target.closest('[data-copy],[data-copy-from]')
  if (copy) copyFrom(copy).catch(() => say('Copying is not allowed here'))
})

// The same hash lights up everywhere on the page.
const light = on => e => {
  const hash = e.target.closest?.('[data-h]')?.dataset.h
  if (hash) all(`[data-h="${CSS.escape(hash)}"]`).forEach((el, i, same) => el.classList.toggle('lit', on && same.length > 1))
}
for (const [type, on] of [['pointerover', true], ['pointerout', false], ['focusin', true], ['focusout', false]]) document.addEventListener(type, light(on))

// Copying the short form of a hash gives the whole.
document.addEventListener('copy', e => {
  const of = node => node?.parentElement?.closest('[data-h]')
  const s = getSelection(), hash = of(s.anchorNode)
  if (!hash || s.isCollapsed || hash !== of(s.focusNode)) return
  e.clipboardData.setData('text/plain', hash.dataset.h)
  e.preventDefault()
})

document.addEventListener('keydown', e => {
  const q = document.getElementById('q'), at = document.activeElement
  if (!q || e.ctrlKey || e.metaKey || e.altKey) return
  if (e.key === '/' && !/^(input|textarea|select)$/i.test(at?.tagName) && !at?.isContentEditable) {
    e.preventDefault()
    q.focus()
    q.select()
  } else if (e.key === 'Escape' && at === q) q.blur()
})

// Relative times grow older where they stand, or are shown as they are.
const relative = (ms, now) => {
  const min = Math.floor(Math.abs(now - ms) / 60000), ahead = ms > now
  if (!min) return ahead ? 'in under 1 min' : 'just now'
  const text = min < 60 ? `${min} min` : min < 2880 ? `${Math.floor(min / 60)} h` : `${Math.floor(min / 1440)} days`
  return ahead ? `in ${text}` : `${text} ago`
}
const exact = ms => new Date(ms).toISOString().slice(0, 19).replace('T', ' ') + ' UTC'
const inUTC = document.querySelector('[data-times]')
const age = () => all('time[datetime]').forEach(t => {
  const ms = Date.parse(t.dateTime), both = [relative(ms, Date.now()), exact(ms)]
  if (inUTC.ariaPressed === 'true') both.reverse()
  if (t.textContent !== both[0]) [t.textContent, t.title] = both
})
const showTimes = utc => {
  inUTC.ariaPressed = utc
  age()
}
inUTC.onclick = () => {
  showTimes(inUTC.ariaPressed !== 'true')
  remember('times', inUTC.ariaPressed === 'true' ? 'utc' : 'relative')
}
showTimes(/(^|; )times=utc/.test(document.cookie))
setInterval(() => { if (!document.hidden) age() }, 5000)

// A page with the state of the node follows it: one stream, closed while the page is
// hidden, and on the front page the feed.
const state = document.getElementById('live-state')
if (state) live(document.getElementById('feed'))

function live (feed) {
  const pause = document.getElementById('feed-pause'), fresh = document.getElementById('feed-new'), asOf = document.getElementById('as-of')
  const url = new URL(state.dataset.stream, location)
  let source, held = [], paused = false, heard = Date.now(), read = heard, unsaid = 0, count

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
  const recount = () => {
    count ??= setTimeout(async () => {
      count = undefined
      try {
        const now = await (await fetch(state.dataset.status)).json()
        const fill = (name, find) => all(`[data-${name}]`).forEach(el => { el.textContent = find(el.dataset[name]).toLocaleString('en-US') })
        fill('count', path => path.split('.').reduce((v, key) => v[key], now))
        fill('head', id => now.chains.find(c => c.chainId === +id).head)
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
      recount()
      if (!feed) return
      if (paused) {
        held = [...held, JSON.parse(m.data)].slice(-100)
        button()
      } else put([JSON.parse(m.data)])
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
    setInterval(() => {
      if (unsaid) say(`${unsaid} new events`)
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
}
