"""What the words of everyday tasks weigh: English, German, French, Spanish and Portuguese, in one table.

`*` stands for any ending, `_` for the space within a phrase; words are written without accents. What is said of a
longer phrase counts instead of its parts. `benchmarks/bench_routing.py` tells how often the weights are right.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final


class Kind(StrEnum):
    """What a task is about."""

    FILES = "files"
    """Files, programs and repairs."""
    TALK = "talk"
    """Questions of general knowledge, sums, texts to write, small talk."""
    WEB = "web"
    """Sources, the web, what is new."""


EVERYDAY_WORDS: Final[Mapping[Kind, Mapping[int, str]]] = {
    Kind.FILES: {
        5: """
            archivo archivos arquivo* carpeta* command_line datei* director* disk_usage dossier dossiers
            ficheiro* fichier* file filename* files folder* merge_conflict* null_pointer ordner* page_web
            pagina_web pasta pastas pull_request_for spreadsheet* stack_trace subfolder* text_document*
            textdatei* unit_test* unterordner* verzeichnis* web_app web_page web_server webseite* webserver
            website_about workbook* worksheet*
        """,
        4: """
            already_in_use api_key backend batch beautify benenne binary cannot_find changelog chatbot checksum*
            chmod codebase command_line_tool commit* compil* compilador compilateur conda crawl crawler cron*
            dataframe debug* discord_bot docker dockerfile docstring* einrueck* endpoint* entpack* excel_sheet
            exception* executable extension favicon flatten frontend git github gitlab hangman hash in_c in_go
            in_java in_javascript in_python in_rust indent index_out_of javascript kubernetes landing_page lint
            linter localhost login_page lowercase makefile md5 memory_leak minesweeper minify notebook* npm
            numpy pandas parse* password_generator permission_denied permissions pip plugin port_in_use
            powerpoint prettify program programa* programm* programme programming programs pytest react_project
            refactor* regex* rename* renombr* renomei* renomm* repo repos scrape scraper script* segfault*
            sha256 skript* slides source_code sqlite stitch stopwatch subroutine subtitles sudoku_solver
            symlink* syntax_error tarball telegram_bot tetris tic_tac_toe todo_app traceback type_error
            typescript umbenenn* undefined unittest* unpack untar unzip* uppercase venv virtualenv visualis*
            visualiz* web_scraper webhook webpack whitespace wordpress zip
        """,
        3: """
            abgesturzt absturz* alarm_clock algorithm algorithmus apag* archive_of array arregla* attachments
            audio aufraumen backup* bar_graph bash bild bilder blank_lines borra* breaks bug bugs chapters chart
            colonne* column* columna* coluna* compress* concatenat* conserta* copia copiar copie copier copies
            copy crash* crop css csv dataset datenbank* decrypt dedup* delete* deplac* deploy dictionary divida
            divide_le django documenti documentos documents docx doesn_t_work dokumente doppelte downloads
            duplicat* duplicate_lines ebook elimin* encrypt episodes excel execute expense_tracker fichiers
            flask formula foto fotos freezes funktioniert_nicht fusiona geht_nicht gif golang hangs hangs_up
            hangt_sich haskell heic histogram html icon image imagem imagen* imagens images implement* java
            jpeg* jpg json junte kaputt kill_the komprim* kopier* kotlin launch line_graph loop losch*
            marche_pas markdown matrix meine_seite merge* meu_site mi_pagina migration mon_site move mover mp3
            mp4 mueve* nao_abre nao_funciona nao_liga ne_fonctionne ne_marche never_runs no_abre no_arranca
            no_funciona not_work not_working parse parser pdf pdfs perl photo* photos php pictures plante
            plantent playlist plot png portfolio powershell prefix programmier* pruebas python react recordings
            repair* repare* reparier* resize* rotate row_numbers ruby run rust s_affiche_plus scan scans schema
            schneide screenshot* separa_o shell simulate snaps socket songs spalte* sql start_the_server
            stuck_at sturzt suffix supprim* svg terminal testes tests thread throws thumbnail* timer todo toml
            tracker tracks transcode transpose* trava trennen tsv txt validate variable* vereinige verschieb*
            video videos watermark wav won_t_start xlsx xml yaml zeile zeilen zeilennummern zu_verwenden
            zusammenfugen
        """,
        2: """
            anlegen anwendung api aplicacion aplicativo app append* apps aufteilen ausgabe backup benchmark bot
            botao boton bouton branch build builds bundle button calculadora calculator calculatrice cell cells
            characters_in chart_of checkboxes class classes clean clean_up clear code codigo combine comments
            config* convert* converta* converti* convierte* count coverage css_grid daemon database deck
            dependencies dependency diff docs documentation download* dropdown einstellung* enregistr* enum
            erreur* error errors ersetz* export* extract* extrah* fail* fallan fehler* filename filter fix fixed
            fixes fonction* form form_does formulaire formular formulario funcao* funcion* function functions
            fusionn* graph_of guarda* guessing_game header import* imports input insert* instal* install*
            installier* jeu jogo join juego junta* knopf layout leg lege ligne* linea* lines linha* log login
            logs machine_start menu method* modul module modules my_machine my_source_code normali* opcion
            option ordena* organi* output pack package page_title paket permission* ping pings pipeline popup
            prepend presentation print process put_all put_them quellcode query quiz raum* readme reemplaz*
            remov* remplac* replac* round_all row rows salva* save save_as schlagen server servers settings
            sheet shrink slide snake_game sort sortier* sorts speicher* spiel split strip struct substitu* swap
            tabela* tabelle* tabla* table tableau* tables tag taschenrechner teile test tidy timeout tri trie
            trier trim truncat* type_hints umwandeln upgrade* video_game wandle* watch words_in workflow
            worter_in zahl_die
        """,
    },
    Kind.TALK: {
        5: """
            aniversario anniversaire antonym* apolog* bedtime birthday blague* capital_de capital_of capitale
            chiste* congratulat* conte conto contraire_de contrario couplet cover_letter cuento* cumpleanos
            entschuldig* eulogy fairy_tale felicit* geburtstag* gedicht* gegenteil geschichte_uber gluckwunsch*
            grammar greeting_card haiku* hauptstadt historia_de joke* limerick* lyrics marchen motto nickname*
            opposite piada* poem* poema* poeme* pros_and_cons ratsel receita* receta* recette* recipe recipes
            rede_zum reim rezept* rhym* riddle* slogan* song_about speech_for stories story synonym* tale tales
            toast traduc* tradui* traduz* translat* ubersetz* verse vows witz*
        """,
        4: """
            bedeutet boa_noite bom_dia buenas_noches buenos_dias capital celsius centimet* courriel
            diferenca_entre diferencia_entre difference_between difference_entre divided_by douzaine dozen
            dutzend email_for email_to erfunden fahrenheit feet formulier* gallons good_afternoon good_evening
            guten_abend guten_morgen guten_tag half_of hofliche* how_do_you_say ideas ideen idees ideias
            in_french in_german in_italian in_japanese in_spanish inches invented kilogram* kilomet* letter_to
            liters litres mean meaning means meening merci_de message_to metade mitad moitie nice_to_say note_to
            ounce ounces percent plural poli polite politely pounds pourcent prime prozent redact* redig*
            remerciement sentence significa signifie something_nice square_root squareroot teach_me twice
            unterschied wedding_speech wrote wurzel
        """,
        3: """
            a_day_in adios advice animal* aniversari* au_revoir average_of boa boa_tarde bonjour bonne_nuit
            bonsoir bored boss boyfriend breakfast brief brother buenas buenos bullet_points bye ca_va cadeau
            calcul* caption carta cats charades cocinar colleague combien_font come_up_with compose* conta
            conte_moi continent convite cook countries country countryside cuanto_es cuent* cumple* dad dame
            dank danke* days_in definition dinner divide do_you_think dogs donne_moi draft* dress dwarfs
            einladung empfehl* empire erklar* erzahl* essay excuse explain* explica* expliqu* feel feet_in
            felicitacion friend fruit gardener geburtstags* geschenk gift girlfriend give_me good_bye
            good_morning good_night gracias grandma grandmother grandpa hallo happy hello hey history_of hobbies
            hobby hola how_are_you how_many_seconds idea idee imagine_you improve_this in_order interview invent
            invitacion invitation karte king kochen landlord largest laugh letter lettre lonely lunch
            magic_tricks make_up me_da meaning_of merci minus moon mother motivate mountain multiply mum
            name_for name_three named_after neighbor* neighbour* nenne* nombre_para nome_para novel obrigad*
            ocean oi ola opinion packing_list paragraph paraphras* party past_tense philosophy planet* plus
            population_of prenom present_for presente pretend profile proofread proverb quanto_e que_tal queen
            quote raconte* rechne* recommend* regalo rephrase restaurant_review review_of_a rewrite* river
            rough_day rules_of sad salut seconds_in secret shorten* should_i sister soll_ich solve speech spell
            spruch stars stronger suggest* sum_of sun tchau teacher tell_a tell_me tell_us thank_you thanks
            the_plot_of time_zone tricks tschuss tudo_bem vegan vegetarian vorschlag* wear wedding weekend
            what_can_you what_if which_came wie_geht wie_viel_ist wieviel wish would_you_rather
        """,
        2: """
            beschreib* biggest compare decide decris describ* fact facts fasse fastest hi in_one_sentence
            largest_country plan please short simply summari* tallest zusammen
        """,
    },
    Kind.WEB: {
        8: """
            annotated_bibliography bibliograph* on_the_web search_online search_the_internet search_the_web
        """,
        6: """
            actualites cite cited cites en_ligne en_linea fact_check* googel google headlines im_internet
            im_netz im_web internet la_web le_web literature_review meta_analysis na_web nachrichten news
            noticia* nouvelles online peer_review* previsao previsions primary_source* pronostico regnet_es
            revisao_sistematica revision_sistematica revue_de_la_litterature revue_systematique schlagzeilen
            systematic_review systematische_ubersicht the_web va_a_llover va_t_il_pleuvoir vai_chover
            will_it_rain with_citations
        """,
        5: """
            anoche browse* cheapest cientifico* citacoes citas citation* clima_em credible current_president
            delayed earthquake forecast fuenteses gestern_abend guenstig* gunstigste* hacker_news hier_soir
            hurricane investiga is_down jornais journaux last_night latest_version literatura literature
            litterature meteo newest_version newspaper* official_page* official_url ontem_a_noite periodicos
            pesquis* pesquise prime_minister quellen* recherch* reddit research scientific scientifique*
            share_price sources state_of_the_art stock_price tempo_hoje tempo_para temps_fait the_url_of
            tiempo_hace top_posts trustworthy twitter url_of verify weather wetter* wettervorhersage
            which_version wikipedia wissenschaftliche youtube zeitung*
        """,
        4: """
            according_to actual actuales actualite actuel* address_of aktuell* amanha announce* articles
            articulos artigos at_the_cinema at_the_moment atuais atual au_cinema avis_sur ayer belege benzin
            beweise bewertungen bitcoin bolsa borse bourse bundesliga bundestag champions_league cheap congress
            cotacao crypto dax demain derzeit* documentation_for dow_jones en_el_cine estudios estudos ethereum
            etudes evidence exchange_rate experts fahrplan fiables find_out flights flug gestern government_of
            guideline* historians homepage im_kino inflation_rate interest_rate* latest link_to links
            look_online look_up manana markets mortgage_rates nasdaq nba near_me nearby neueste* newest
            news_about next_bus next_flight next_train nfl no_cinema nowadays official_documentation
            official_site olympics ontem open_now opiniones papers parliament petrol_price phone_number_of
            prouvent prueban published published_work quem_ganhou qui_a_gagne quien_gano rain_in recent*
            reference_for references regulation* release_date reviewers reviews reviews_of right_now
            running_today sanctions scholars senate serieuses shares site_of snow snowing sourced statistics
            statistics_on stock stock_market stocks storm studien studies study_about study_on sunny the_fed
            these_days ticket_price* tickets timetable tomorrow top_stories traffic trending trial trials viral
            vol_pour vuelo* website_of wechselkurs wer_hat_gewonnen what_happened who_won with_a_reference
            with_links world_cup yesterday zahlen_zu zuverlassige
        """,
        3: """
            acheter agora ahora aujourd_hui bericht_uber bill book_a busca busque buy chancellor cherche
            cherchez cinema comprar concert consulta cost coute cuesta current currently custa deal deals
            degrees_in dentist discount doing_today election elections en_ce_moment fahrt_der festival formula_1
            gerade gewonnen going_to_rain going_to_snow heute hoje horaires horarios hotel hotels how_is_the hoy
            informe_sobre iphone kanzler kaufen kostet laptop laptops law laws museum nachste_zug offnungszeiten
            on_friday on_monday on_saturday on_sunday on_thursday on_tuesday on_wednesday opening_hours partido
            pharmacy polls precio precios preco* preis preise* premier_league president president_of presidente
            price prices prix procure rapport_sur relatorio_sobre report_on restaurant_in restaurants search
            so_far sourced_overview standings strike such suche temperature_in this_month this_week this_weekend
            this_year today tonight train_to trains umbrella update_on vote wahl won zahnarzt
        """,
        2: """
            benefits_of concert* effects_of effets_de encontre encuentra event* find finde happening league
            match overview paper rain regen release released score source study survey trouve* wirkung_von
        """,
    },
}
