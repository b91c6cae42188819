"""Tools of many domains, and what people ask of them, for measuring a search among them.

The descriptions are written as authors of tools write them, the questions as people ask: in passing, with other
words than the tools have, with a slip of the finger now and then. `QUESTIONS` has all tools that are right for each.
Every second question, those of `UNSEEN`, was not looked at while the search was made.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from toolcast.messages import Message, ToolCallPart, assistant, tool_result, user
from toolcast.tools.callable_tool import CallableTool

_TOOLS = """
send_email: Send an email message to one or more recipients.
    to: addresses of the recipients; subject; body; attachments: paths of files to attach
reply_to_email: Reply to an existing email, keeping the thread.
    message_id; body; reply_all: whether everybody on the thread gets the reply
search_emails: Search the mailbox by sender, subject, date or words in the text.
    query; sender; since; folder
get_email: Fetch one message with its full body and headers.
    message_id
delete_email: Move an email to the trash.
    message_id
create_email_filter: Create a rule that sorts incoming mail automatically.
    condition; action: label, archive, forward or delete
mark_email_as_spam: Report a message as junk.
    message_id
unsubscribe_from_list: Opt out of a newsletter or a mailing list.
    list_address
create_calendar_event: Create an event in the calendar and invite attendees.
    title; start; end; attendees; location
list_calendar_events: List the events between two dates.
    calendar_id; start_date; end_date
update_calendar_event: Change the time, place or title of an event.
    event_id; changes
delete_calendar_event: Cancel an event and notify its attendees.
    event_id
find_free_slots: Find times when all participants are available.
    participants; duration_minutes; within
set_out_of_office: Turn on an automatic reply for absences.
    from_date; to_date; message
create_reminder: Remind the user of something at a given time.
    text; when
list_reminders: List the pending reminders.
delete_reminder: Remove a reminder.
    reminder_id
set_timer: Start a countdown that rings when it is over.
    seconds; label
set_alarm: Set an alarm clock for a time of day, once or on certain weekdays.
    time; weekdays
add_todo: Add a task to the to-do list.
    title; due; priority
complete_todo: Mark a task as done.
    task_id
list_todos: Show open tasks, optionally of one project.
    project
create_note: Save a note with a title and tags.
    title; text; tags
search_notes: Full-text search in the notes.
    query
append_to_note: Add text to the end of an existing note.
    note_id; text
find_contact: Look up a person's phone number, address or email in the address book.
    name
add_contact: Store a new person in the address book.
    name; phone; email
merge_duplicate_contacts: Find entries of the same person and combine them.
slack_post_message: Post a message to a Slack channel.
    channel; text; thread_ts
slack_list_channels: List public channels in the workspace.
slack_get_channel_history: Get recent messages from a channel.
    channel; limit
slack_add_reaction: Add an emoji reaction to a message.
    channel; timestamp; emoji
send_sms: Send a text message to a mobile phone.
    phone_number; text
make_phone_call: Place a voice call to a number and play or speak a text.
    phone_number; speech
start_video_meeting: Start an online meeting and return its join link.
    topic; participants
get_meeting_transcript: Get what was said in a recorded meeting.
    meeting_id
read_file: Read the contents of a text file.
    path; offset; limit
write_file: Write text to a file, replacing what was there.
    path; content
edit_file: Replace one passage of a file with another.
    path; old_text; new_text
list_directory: List files and folders with sizes and dates.
    path
move_file: Move or rename a file or directory.
    source; destination
copy_file: Duplicate a file.
    source; destination
delete_file: Permanently delete a file from disk.
    path
search_files: Find files whose name matches a pattern.
    root; pattern
grep_files: Search inside files for a regular expression and return the matching lines.
    pattern; path
compress_files: Pack files into a zip archive.
    paths; archive
extract_archive: Unpack a zip or tar archive.
    archive; destination
get_disk_usage: Report used and available space on the disks.
watch_folder: Notify when something in a folder changes.
    path
run_command: Execute a shell command and return its output.
    command; timeout
run_python: Execute Python code in a sandbox and return what it prints.
    code
list_processes: Show running processes with CPU and memory use.
kill_process: Terminate a process by id.
    pid
get_system_info: Operating system, hardware and uptime of this machine.
take_screenshot: Capture the screen as an image.
    display
read_clipboard: Get the current content of the clipboard.
set_volume: Set the loudspeaker volume of this computer.
    percent
git_status: Show the working tree status.
git_commit: Record changes to the repository.
    message; files
git_diff: Show changes between commits or in the working tree.
    revision; path
git_log: Show the commit history.
    path; max_count
git_blame: Show who last changed each line of a file, and when.
    path
git_create_branch: Create a branch from the current or another commit.
    name; start_point
git_revert: Undo a commit by a new one.
    commit
github_create_issue: Create a new issue in a GitHub repository.
    owner; repo; title; body; labels
github_list_issues: List issues of a repository with filters.
    owner; repo; state; labels
github_add_issue_comment: Comment on an issue or a pull request.
    owner; repo; number; body
github_create_pull_request: Open a pull request for a branch.
    owner; repo; title; head; base
github_merge_pull_request: Merge a pull request.
    owner; repo; number; merge_method
github_get_pull_request_diff: Get the patch of a pull request.
    owner; repo; number
github_request_review: Ask people to review a pull request.
    owner; repo; number; reviewers
github_search_code: Search code across all repositories.
    query
github_get_workflow_run: Status and logs of a CI workflow run.
    owner; repo; run_id
github_create_release: Publish a release with notes and assets.
    owner; repo; tag; notes
github_fork_repository: Fork a repository to your account.
    owner; repo
jira_create_ticket: Create a ticket in a Jira project.
    project; summary; type; assignee
jira_transition_ticket: Move a ticket to another status, such as In Progress or Done.
    key; status
jira_search: Search tickets with JQL.
    jql
jira_assign_ticket: Assign a ticket to a person.
    key; assignee
run_tests: Run the project's test suite and report the failures.
    path; keyword
lint_code: Check source code for style problems and likely errors.
    path
format_code: Reformat source files to the project's style.
    path
install_package: Install a Python package into the environment.
    name; version
get_package_versions: List the published versions of a package.
    name
docker_list_containers: List containers, running or stopped.
docker_restart_container: Restart a container.
    container
docker_build_image: Build an image from a Dockerfile.
    path; tag
docker_logs: Fetch the output of a container.
    container; tail
kubectl_get_pods: List the pods in a Kubernetes namespace.
    namespace
kubectl_scale_deployment: Change the number of replicas of a deployment.
    deployment; replicas
kubectl_describe: Show details of a cluster resource.
    kind; name
deploy_service: Roll out a version of a service to an environment.
    service; version; environment
rollback_deployment: Return a service to the version before.
    service
query_logs: Search application logs by time range, level and text.
    service; level; since; text
get_metrics: Read a monitoring metric as a time series.
    metric; service; range
list_alerts: Show alerts that are firing.
acknowledge_alert: Acknowledge an alert so that nobody else is paged.
    alert_id
get_on_call: Tell who is on call for a team.
    team
create_status_page_incident: Publish an incident on the public status page.
    title; impact
create_virtual_machine: Launch a server in the cloud.
    size; image; region
stop_virtual_machine: Shut down a cloud server.
    instance_id
get_cloud_bill: Costs of the cloud account by service and month.
    month
upload_to_bucket: Put a file into object storage.
    bucket; key; path
list_bucket: List objects in a storage bucket.
    bucket; prefix
dns_lookup: Resolve a host name to its addresses.
    hostname; record_type
ping_host: Measure whether a host is reachable and how fast it answers.
    host
check_ssl_certificate: Show issuer and expiry date of a site's TLS certificate.
    host
whois_domain: Registration data of an internet domain.
    domain
port_scan: Find open ports of a host.
    host; ports
speed_test: Measure download and upload bandwidth of the connection.
sql_query: Run a read-only SQL query against the database.
    query; database
sql_execute: Run a statement that modifies the database.
    statement
list_tables: List the tables of a database.
describe_table: Show the columns and types of a table.
    table
backup_database: Make a dump of a database.
    database; destination
vector_search: Find passages in the knowledge base similar in meaning to a text.
    text; top_k
redis_get: Read a key from the cache.
    key
web_search: Search the web and return titles, links and snippets.
    query; count
fetch_url: Download a web page and return it as text.
    url
browser_click: Click an element on the current page of the browser.
    selector
browser_fill_form: Fill the fields of a form on the current page.
    values
wikipedia_summary: Get the introduction of a Wikipedia article.
    title; language
get_news_headlines: Latest headlines, by topic or country.
    topic; country
search_papers: Search scientific articles by title, author or abstract.
    query; year
get_definition: Define a word, with pronunciation and examples.
    word
find_synonyms: List words of similar meaning.
    word
translate_text: Translate text from one language into another.
    text; target_language; source_language
detect_language: Tell which language a text is written in.
    text
check_grammar: Find spelling and grammar mistakes.
    text
summarize_text: Condense a long text into its main points.
    text; length
rewrite_text: Rephrase a text in another tone or style.
    text; tone
count_words: Count words, sentences and characters.
    text
extract_keywords: Find the key terms in a document.
    text
analyze_sentiment: Classify a text as positive, negative or neutral.
    text
transcribe_audio: Convert speech in a recording to text.
    path; language
text_to_speech: Read a text aloud into an audio file.
    text; voice
get_current_weather: Current temperature, wind and conditions at a place.
    location; units: celsius or fahrenheit
get_weather_forecast: Forecast for the coming days: temperature, rain, wind.
    location; days
get_air_quality: Air quality index and pollen at a place.
    location
get_sunrise_sunset: Times of sunrise and sunset.
    location; date
get_weather_alerts: Severe weather warnings for a region.
    region
get_tide_times: High and low water at a harbour.
    harbour; date
get_directions: Route between two places by car, bicycle, on foot or transit.
    origin; destination; mode
get_traffic: Current congestion on a road or a route.
    route
search_places: Find shops, restaurants or other points of interest near a location.
    query; near; radius
geocode_address: Convert an address to coordinates.
    address
get_elevation: Height above sea level at given coordinates.
    latitude; longitude
find_parking: Find car parks with vacancies nearby.
    location
get_public_transport_departures: Next departures of buses, trams and trains at a stop.
    stop
search_flights: Search for flights between airports.
    origin; destination; date; passengers
book_flight: Book a flight that was found.
    offer_id; passengers
get_flight_status: Whether a flight is on time, delayed or cancelled, and its gate.
    flight_number; date
check_in_flight: Check in online and get the boarding pass.
    booking_reference
search_hotels: Find hotels in a city by date and price.
    city; check_in; check_out; max_price
book_hotel: Reserve a hotel room.
    hotel_id; check_in; check_out; guests
search_trains: Search railway connections with prices.
    origin; destination; departure
rent_car: Reserve a rental car.
    pickup; from_date; to_date; category
request_ride: Order a taxi to an address.
    pickup; destination
get_visa_requirements: Entry rules for a nationality in a destination country.
    nationality; destination
book_restaurant_table: Reserve a table at a restaurant.
    restaurant_id; time; party_size
get_restaurant_menu: Dishes and prices of a restaurant.
    restaurant_id
order_food: Order a meal for delivery.
    restaurant_id; items; address
find_recipes: Find recipes by ingredients or diet.
    ingredients; diet
get_nutrition_facts: Calories and nutrients of a food.
    food
convert_currency: Convert an amount between currencies at today's rate.
    amount; from_currency; to_currency
get_exchange_rate_history: Past exchange rates of two currencies.
    base; quote; since
get_stock_price: Latest price of a share.
    symbol
get_stock_history: Historical daily prices of a security.
    symbol; since
get_company_financials: Revenue, profit and balance sheet of a listed company.
    symbol
place_stock_order: Buy or sell shares.
    symbol; side; quantity
get_crypto_price: Price of a cryptocurrency.
    coin
get_account_balance: Balance of a bank account.
    account
list_transactions: List payments into and out of a bank account.
    account; since
transfer_money: Send money from an account to another.
    from_account; iban; amount; reference
block_card: Block a lost or stolen payment card.
    card
calculate_loan: Monthly instalment of a loan or mortgage.
    principal; rate; years
calculate_tax: Estimate the income tax for a salary.
    income; country
create_invoice: Create an invoice for a customer.
    customer; items; due
list_unpaid_invoices: List invoices that are overdue.
refund_payment: Refund a customer's payment in full or in part.
    payment_id; amount
submit_expense: Hand in a receipt for reimbursement.
    receipt; amount; category
search_products: Search the shop's catalogue.
    query; category; max_price
add_to_cart: Put a product into the shopping basket.
    product_id; quantity
checkout: Buy everything in the basket.
    address; payment_method
get_order_status: Tell where an order is in processing.
    order_id
track_parcel: Follow a shipment by its tracking number.
    tracking_number
return_item: Start the return of a purchased item.
    order_id; reason
check_inventory: How many units of an article are in stock.
    sku
update_stock_level: Set the quantity on hand of an article in the warehouse.
    sku; quantity
get_product_reviews: Ratings and reviews by customers.
    product_id
apply_coupon: Apply a discount code to the basket.
    code
crm_find_customer: Find a customer record by name or company.
    query
crm_update_customer: Update fields of a customer record.
    customer_id; fields
crm_create_lead: Register a potential customer.
    name; company; source
crm_log_call: Record the notes of a conversation with a client.
    customer_id; notes
create_support_case: Open a case with the helpdesk.
    subject; description; severity
hr_request_leave: Apply for vacation days.
    start; end
hr_get_leave_balance: Remaining days of holiday of an employee.
    employee
hr_get_payslip: Download the salary statement of a month.
    month
hr_find_employee: Look up a colleague in the staff directory.
    name
book_meeting_room: Reserve a conference room in the office.
    room; start; end
lights_set: Switch lamps on or off, or dim them.
    room; brightness; color
thermostat_set_temperature: Set the target temperature of the heating.
    room; degrees
lock_door: Lock or unlock a door.
    door; locked
get_camera_snapshot: Current picture of a security camera.
    camera
vacuum_start: Start the robot vacuum cleaner.
    rooms
blinds_set_position: Open or close the window blinds.
    room; percent
get_energy_consumption: Electricity used by the household.
    period
play_music: Play a song, an album, an artist or a playlist.
    query; device
pause_playback: Pause what is playing.
skip_track: Go to the next song.
create_playlist: Make a playlist of tracks.
    name; tracks
identify_song: Recognise a song from a recording.
    recording
get_lyrics: Words of a song.
    title; artist
search_movies: Find films by title, actor or genre.
    query; year
get_tv_schedule: What is on television.
    channel; date
find_cinema_showtimes: When and where a film is shown.
    film; city
search_events: Concerts, exhibitions and shows in a city.
    city; date; category
buy_event_ticket: Purchase admission to an event.
    event_id; seats
get_sports_scores: Results of matches, live and past.
    league; team
get_league_table: Standings of a league.
    league
generate_image: Create a picture from a description.
    prompt; size
edit_image: Change a picture as described.
    path; instruction
resize_image: Scale or crop an image.
    path; width; height
remove_background: Cut out the subject of a photo.
    path
describe_image: Say what can be seen in a picture.
    path
ocr_image: Extract text from a scanned page or photo.
    path
convert_video: Change the format or resolution of a video.
    path; format
trim_video: Cut a clip out of a video.
    path; start; end
download_video: Save an online video as a file.
    url
create_chart: Draw a line, bar or pie chart of data.
    data; kind
generate_qr_code: Make a QR code for a text or link.
    text
read_pdf: Extract text and tables from a PDF document.
    path; pages
merge_pdfs: Combine several PDF documents into one.
    paths
sign_document: Send a document for electronic signature.
    path; signers
create_presentation: Make slides from an outline.
    outline; theme
read_spreadsheet: Read cells from an Excel or CSV sheet.
    path; range
update_spreadsheet: Write values to cells of a sheet.
    path; range; values
print_document: Print a document.
    path; printer; copies
calculate: Evaluate an arithmetic expression.
    expression
convert_units: Convert between units of length, weight, volume and temperature.
    value; from_unit; to_unit
solve_equation: Solve an equation symbolically.
    equation
get_statistics: Mean, median and deviation of numbers.
    numbers
random_number: Draw a random number from a range.
    low; high
get_current_time: The current date and time in a timezone.
    timezone
convert_timezone: Convert a time from one timezone to another.
    time; from_timezone; to_timezone
days_between: Number of days from one date to another.
    start; end
get_public_holidays: Bank holidays of a country in a year.
    country; year
generate_password: Generate a strong random password.
    length
check_password_breach: Tell whether a password appears in known leaks.
    password
rotate_api_key: Replace an API key by a new one.
    service
encrypt_file: Encrypt a file with a passphrase.
    path; passphrase
scan_for_malware: Check a file or folder for viruses.
    path
hash_text: Compute a checksum of a text.
    text; algorithm
decode_base64: Decode Base64 data.
    data
validate_json: Check whether a text is valid JSON, against a schema if one is given.
    text; schema
tweet: Publish a short post to the followers.
    text
schedule_social_post: Queue a post for social networks.
    network; text; when
get_post_engagement: Likes, shares and views of a post.
    post_id
log_workout: Record an exercise session.
    kind; minutes
get_step_count: Steps walked on a day.
    date
get_sleep_report: How long and how well the user slept.
    night
log_meal: Record what was eaten.
    food; portion
get_heart_rate: Pulse measured by the wearable.
    since
book_doctor_appointment: Make an appointment at a medical practice.
    practice; time
find_pharmacy: Pharmacies nearby that are open.
    location
check_drug_interactions: Whether medicines may be taken together.
    medicines
search_jobs: Find vacancies by title and place.
    title; location
search_apartments: Flats for rent or sale.
    city; max_rent; rooms
estimate_property_value: Estimate what a house is worth.
    address
find_charging_station: Charging points for electric cars.
    location
get_fuel_prices: Petrol and diesel prices at filling stations.
    location
get_car_location: Where the car is parked.
water_plants: Run the garden irrigation.
    zone; minutes
get_planet_position: Where a planet stands in the sky.
    planet; location; time
create_quiz: Make questions for learning a topic.
    topic; count
make_flashcards: Turn a text into cards for memorising.
    text
find_rhymes: Words that rhyme.
    word
get_trivia: An interesting fact.
tell_joke: A joke about a subject.
    subject
"""

_QUESTIONS = """
Can you drop Anna a mail saying I'll be late? -> send_email
What's it like outside in Oslo right now? -> get_current_weather
will i need an umbrella in hamburg tomorrow -> get_weather_forecast
Did Peter write to me about the budget last week? -> search_emails
Tell everyone in #general that the build is green again -> slack_post_message
Book me on the cheapest flight to Lisbon on Friday -> search_flights book_flight
How many dollars are 250 euros? -> convert_currency
is LH455 delayed? -> get_flight_status
Wake me at 6:30 on weekdays -> set_alarm
Remind me to call my mother tonight -> create_reminder
How much money do I have left in my checking account? -> get_account_balance
Someone stole my credit card! -> block_card
Where's my package? The number is 1Z999AA10123456784 -> track_parcel
I want my money back for these shoes, they don't fit -> return_item refund_payment
What does 'ubiquitous' mean? -> get_definition
How do you say 'good morning' in Japanese? -> translate_text
Shrink this picture to 800 pixels wide -> resize_image
Turn the heating up a bit in the bedroom -> thermostat_set_temperature
It's too dark in here -> lights_set
Who broke line 42 of parser.py? -> git_blame
open a PR for my branch -> github_create_pull_request
Merge the pull request once it's approved -> github_merge_pull_request
File a bug on GitHub: the login page crashes on Safari -> github_create_issue
What changed since the last commit? -> git_diff git_log
Undo my last commit -> git_revert
Why did the CI fail? -> github_get_workflow_run
Find every place where we call deprecated_login in the source tree -> grep_files github_search_code
Where did I put the file called taxes-2023? -> search_files
Zip up the reports folder -> compress_files
Is there enough room on my hard drive? -> get_disk_usage
my computer is slow, what's hogging the memory -> list_processes
Rename draft.txt to final.txt -> move_file
Get rid of old_backup.tar -> delete_file
Unzip photos.zip -> extract_archive
Restart the nginx container -> docker_restart_container
What did the web container print before it died? -> docker_logs
Scale the api to five replicas -> kubectl_scale_deployment
Put version 2.3.1 into production -> deploy_service
The new release is broken, go back to the previous one -> rollback_deployment
Which alerts are firing? -> list_alerts
Who do I page for the payments team tonight? -> get_on_call
Show me the errors of the checkout service in the last hour -> query_logs
What did we spend on the cloud in March? -> get_cloud_bill
When does the certificate for example.com expire? -> check_ssl_certificate
Which IP does api.example.com point to? -> dns_lookup
Who owns the domain example.org? -> whois_domain
My internet feels slow today -> speed_test
How many users signed up last month? It's in the database -> sql_query
What columns does the orders table have? -> describe_table
Spin up a new server in Frankfurt -> create_virtual_machine
Google who won the Nobel prize for chemistry -> web_search
What does it say on https://example.com/pricing? -> fetch_url
Give me a short overview of the French Revolution -> wikipedia_summary
What's going on in the world today? -> get_news_headlines
Find recent studies on sleep deprivation -> search_papers
Proofread this paragraph for me -> check_grammar
This article is too long, give me the gist -> summarize_text
Make this email sound friendlier -> rewrite_text
What language is this sign in? -> detect_language ocr_image
Type up the interview I recorded yesterday -> transcribe_audio
Read this story out loud to my kid -> text_to_speech
How do I get from the station to the museum on foot? -> get_directions
Is there a jam on the A7? -> get_traffic
Good sushi around here? -> search_places
When's the next bus from Main Street? -> get_public_transport_departures
I need a place to sleep in Vienna from the 3rd to the 5th -> search_hotels
Get me a cab to the airport -> request_ride
Do I need a visa for Vietnam with a German passport? -> get_visa_requirements
Table for four at Luigi's on Saturday at 8 -> book_restaurant_table
What can I cook with eggplant and chickpeas? -> find_recipes
How many calories are in an avocado? -> get_nutrition_facts
I'm hungry, get me a pizza delivered -> order_food
What's Apple trading at? -> get_stock_price
Sell ten shares of Siemens -> place_stock_order
How is bitcoin doing? -> get_crypto_price
Wire 300 euros to my landlord -> transfer_money
What would I pay per month for a 200k mortgage at 4%? -> calculate_loan
How much will the taxman take from 60,000 a year? -> calculate_tax
Which customers haven't paid yet? -> list_unpaid_invoices
Bill Acme Corp for the consulting hours -> create_invoice
I paid for lunch with a client, how do I get that reimbursed? -> submit_expense
Do we still have SKU 4711 in stock? -> check_inventory
I have a discount code, SUMMER20 -> apply_coupon
What do people say about this vacuum? -> get_product_reviews
Note down that the client from Globex called about the contract -> crm_log_call
How many vacation days do I have left? -> hr_get_leave_balance
I'd like to take the first week of August off -> hr_request_leave
Which room is free for a meeting with ten people at 3? -> book_meeting_room
When could Anna, Bob and I meet this week? -> find_free_slots
Push my 2 o'clock to 4 -> update_calendar_event
What's on my agenda tomorrow? -> list_calendar_events
Call off Thursday's dentist appointment -> delete_calendar_event
What's Maria's phone number? -> find_contact
text Tom that i'm outside -> send_sms
Get the Zoom going with the design team -> start_video_meeting
What did we agree on in yesterday's meeting? -> get_meeting_transcript
Put milk on my list of things to buy -> add_todo
I finished the tax return, tick it off -> complete_todo
Did I lock the front door? -> lock_door
Is somebody at the gate? Show me -> get_camera_snapshot
Clean the living room floor -> vacuum_start
Let some light in, raise the shades in the study -> blinds_set_position
How much electricity did we use this week? -> get_energy_consumption
Put on some jazz -> play_music
next song please -> skip_track
What's this tune that's playing? -> identify_song
What are the words to Bohemian Rhapsody? -> get_lyrics
Which movies has Tilda Swinton been in? -> search_movies
When does Dune play near me tonight? -> find_cinema_showtimes
Any concerts in Leipzig this weekend? -> search_events
Who won the match last night? -> get_sports_scores
How far up is Bayern in the Bundesliga? -> get_league_table
Draw me a cat astronaut -> generate_image
Cut out the person from this photo -> remove_background
What's in this picture? -> describe_image
Pull the text off this scanned receipt -> ocr_image
Plot sales per month as a bar graph -> create_chart
Put these three PDFs together -> merge_pdfs
Get the contract signed by both parties -> sign_document
Turn these notes into slides -> create_presentation
What is in column B of budget.xlsx? -> read_spreadsheet
I need this on paper, two copies -> print_document
what is 17 * 23 -> calculate
How many miles are 42 kilometres? -> convert_units
What's the average of these numbers? -> get_statistics
Roll a dice -> random_number
What time is it in Tokyo? -> get_current_time
If it's 9 am in New York, what time is that in Berlin? -> convert_timezone
How long until Christmas? -> days_between
Is the 1st of November a day off in Bavaria? -> get_public_holidays
I need a secure passphrase for my new account -> generate_password
Has my password been leaked? -> check_password_breach
Does this download contain a virus? -> scan_for_malware
Is this valid JSON? -> validate_json
Post 'we are hiring' to Twitter at noon tomorrow -> schedule_social_post tweet
How many likes did my last post get? -> get_post_engagement
I ran for 40 minutes this morning -> log_workout
How well did I sleep? -> get_sleep_report
I had two eggs and toast for breakfast -> log_meal
I need to see a doctor this week -> book_doctor_appointment
Can I take ibuprofen with aspirin? -> check_drug_interactions
Are there any openings for nurses in Cologne? -> search_jobs
I'm looking for a two bedroom flat in Munich under 1500 -> search_apartments
What could we sell our house for? -> estimate_property_value
Where can I charge my Tesla? -> find_charging_station
Where did I leave the car? -> get_car_location
The garden is dry -> water_plants
Quiz me on photosynthesis -> create_quiz
Make me laugh -> tell_joke
what is the wether in berlin -> get_current_weather get_weather_forecast
Trasnlate this letter to French -> translate_text
send an emial to the whole team -> send_email
Stop all those newsletters from Fashionista -> unsubscribe_from_list
I'm away until Monday, let people who write to me know -> set_out_of_office
Sort everything from my bank into its own folder automatically -> create_email_filter
Install numpy -> install_package
Are all the unit tests passing? -> run_tests
Move PROJ-12 to done -> jira_transition_ticket
Give PROJ-7 to Sarah -> jira_assign_ticket
Is the database server up? -> ping_host
Copy report.pdf into the S3 bucket -> upload_to_bucket
Email me the weather forecast for Rome -> get_weather_forecast send_email
Find a hotel in Paris and put the dates in my calendar -> search_hotels create_calendar_event
"""

_WEATHER = (
    "user: What's the weather in Paris right now?",
    "calls: get_current_weather",
    "assistant: 18 degrees and sunny.",
)

_CONVERSATIONS: tuple[tuple[tuple[str, ...], str], ...] = (
    ((*_WEATHER, "user: And now the same for Berlin"), "get_current_weather"),
    ((*_WEATHER, "user: What about tomorrow?"), "get_weather_forecast"),
    ((*_WEATHER, "user: Great. Then find me a hotel there"), "search_hotels"),
    ((*_WEATHER, "user: Send that to my wife by email"), "send_email"),
    (("user: Show my open tasks", "calls: list_todos", "assistant: 1. Taxes 2. Laundry", "user: The first is done"),
     "complete_todo"),
    (("user: Is container web running?", "calls: docker_list_containers", "assistant: It has exited.",
      "user: Start it again"), "docker_restart_container"),
    (("user: Find flights to Rome on Friday", "calls: search_flights", "assistant: There is one at 9:10 for 80 euros.",
      "user: Ok, take it"), "book_flight"),
    (("user: How is the Siemens share doing?", "calls: get_stock_price", "assistant: It stands at 201 euros.",
      "user: and Bosch?"), "get_stock_price"),
    (("user: Translate 'hello' to Spanish", "calls: translate_text", "assistant: hola", "user: now Italian"),
     "translate_text"),
    (("user: Which of my tickets are open?", "calls: jira_search", "assistant: PROJ-1 and PROJ-2.",
      "user: Close the second"), "jira_transition_ticket"),
    (("user: What songs are on Abbey Road?", "assistant: Come Together, Something ...", "user: play it"),
     "play_music"),
    (("user: Make a picture of a castle", "calls: generate_image", "assistant: Here it is.",
      "user: Without the clouds, please"), "edit_image"),
)  # fmt: skip


@dataclass(frozen=True)
class Labelled:
    """What was said, and the names of the tools that are right for it."""

    messages: tuple[Message, ...]
    right: frozenset[str]

    @property
    def text(self) -> str:
        return self.messages[-1].text

    def recall(self, found: list[str]) -> float:
        """The part of the right tools that was found."""
        return len(self.right & set(found)) / len(self.right)


def _tools() -> Iterator[CallableTool]:
    for entry in re.split(r"\n(?=\S)", _TOOLS.strip()):
        head, _, parameters = entry.partition("\n")
        name, _, description = head.partition(": ")
        yield tool(name, description, parameters)


def tool(name: str, description: str = "", parameters: str = "") -> CallableTool:
    """A tool with `parameters`, texts, written `name: description; name; ...`."""
    pairs = [each.strip().partition(": ")[::2] for each in parameters.split(";") if each.strip()]
    properties = {key: {"type": "string", **({"description": words} if words else {})} for key, words in pairs}
    made = CallableTool.from_type(dict[str, Any], name, description or name)
    return replace(made, parameters={"type": "object", "properties": properties})


def _questions() -> Iterator[Labelled]:
    for line in _QUESTIONS.strip().splitlines():
        text, _, right = line.partition(" -> ")
        yield Labelled((user(text),), frozenset(right.split()))


def _conversations() -> Iterator[Labelled]:
    for lines, right in _CONVERSATIONS:
        yield Labelled(tuple(message for line in lines for message in _messages(line)), frozenset([right]))


def _messages(line: str) -> list[Message]:
    who, _, words = line.partition(": ")
    if who == "calls":
        call = ToolCallPart(f"call_{words}", words)
        return [assistant(call), tool_result(call, "done")]
    return [user(words) if who == "user" else assistant(words)]


TOOLS = tuple(_tools())
QUESTIONS = tuple(_questions())
SEEN, UNSEEN = QUESTIONS[::2], QUESTIONS[1::2]
CONVERSATIONS = tuple(_conversations())
